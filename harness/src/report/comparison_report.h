// A comparison of runs as text for the terminal, as JSON and as a page.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "compare/run_comparison.h"

namespace dp_bench::report {

/// For the terminal; ends with a line break.
std::string ComparisonText(const compare::RunComparison& comparison);

nlohmann::json ToJson(const compare::RunComparison& comparison);

/// One self-contained page: no network, no script. Links existing videos of discordant seeds
/// relative to `file`. Throws Error{kIo}.
void WriteComparisonReport(const compare::RunComparison& comparison,
                           const std::filesystem::path& file);

}  // namespace dp_bench::report
