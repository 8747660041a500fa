// The result of an evaluation as a table for the terminal.
#pragma once

#include <string>

#include "rollout/run_result.h"

namespace dp_bench {

/// One row per split that ran (success rate with its 95 % Wilson interval and counts, mean score,
/// failed episodes), then every failed episode with its reason. Ends with a line break.
std::string ResultTable(const RunResult& result);

}  // namespace dp_bench
