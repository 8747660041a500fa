// Results of evaluations as tables for the terminal.
#pragma once

#include <string>

#include "run/perturbation_effects.h"
#include "run/run_result.h"

namespace dp_bench::report {

/// One row per split (success rate with 95 % Wilson interval and counts, mean score, failed
/// episodes), then every failed episode with its reason. Ends with a line break.
std::string ResultTable(const run::RunResult& result);

/// One row for the control and for each arm: success rate, mean score, their differences from the
/// control with paired 95 % intervals, and the number of episodes that changed. Then the arms'
/// notes. Ends with a line break.
std::string EffectsTable(const run::PerturbationEffects& effects);

}  // namespace dp_bench::report
