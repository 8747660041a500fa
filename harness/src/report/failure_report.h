// What an evaluation says about its failures, for the terminal and for report.html.
#pragma once

#include <filesystem>
#include <kainjow/mustache.hpp>
#include <span>
#include <string>
#include <string_view>

#include "run/episode_record.h"

namespace dp_bench::report {

/// The clusters of each split with their signs, each line ended; empty when all succeeded.
std::string FailureText(std::span<const run::EpisodeRecord> records);

/// The clusters of a split as the template's `clusters`: {name, meaning, n, score, signs: [{when,
/// text}], note, seeds: [{seed, href}], commands}. `run_dir` is named in the commands that film
/// what was not filmed.
kainjow::mustache::data FailuresData(std::span<const run::EpisodeRecord> records,
                                     std::string_view split, const std::filesystem::path& run_dir);

}  // namespace dp_bench::report
