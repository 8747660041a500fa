// The result of an evaluation as a table for the terminal.
#pragma once

#include <string>

#include "run/run_result.h"

namespace dp_bench::report {

/// One row per split that ran (success rate with its 95 % Wilson interval and counts, mean score,
/// failed episodes), then every failed episode with its reason. Ends with a line break.
std::string ResultTable(const run::RunResult& result);

}  // namespace dp_bench::report
