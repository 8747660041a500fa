// What the steps of a suite will cost, before any of them is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/cost_prediction.h"
#include "suite/suite_steps.h"

namespace dp_bench::suite {

struct StepTrial {
  std::optional<run::CostPrediction> cost;  // none if the trial failed
  std::string failure;                      // its error
};

/// Dry runs of the steps in `wanted`, one for all with the same SuiteStep::trial, until `stop`.
/// They work in a temporary folder, `n_at_once` at a time, as those of the suite will. Returns what
/// was found for each of `wanted`.
std::vector<StepTrial> TrySteps(std::span<const SuiteStep> steps,
                                const std::vector<std::size_t>& wanted, int n_at_once,
                                const std::atomic<bool>& stop);

}  // namespace dp_bench::suite
