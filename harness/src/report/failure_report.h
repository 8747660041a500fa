// The failures of an evaluation, for the terminal and for report.html.
#pragma once

#include <kainjow/mustache.hpp>
#include <span>
#include <string>
#include <string_view>

#include "run/run_folder.h"

namespace dp_bench::report {

/// The clusters of each split with their signs; empty if all episodes succeeded.
std::string FailureText(std::span<const run::EpisodeRecord> records);

/// The clusters of a split as the template's `clusters`: {name, meaning, n, score, signs: [{when,
/// text}], note, seeds: [{seed, href}], commands}. `commands` film the other episodes.
kainjow::mustache::data FailuresData(const run::RunFolder& run, std::string_view split);

}  // namespace dp_bench::report
