// What the steps of a suite will cost, before any of them is done.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/cost_prediction.h"
#include "suite/suite_steps.h"

namespace dp_bench::suite {

/// Dry runs of steps, one for all with the same SuiteStep::trial. They work in a temporary folder,
/// `n_at_once` at a time, as those of the suite will.
class SuiteTrials {
 public:
  /// Tries those of `wanted`, until `stop`. The steps must outlive this object.
  SuiteTrials(std::span<const SuiteStep> steps, const std::vector<std::size_t>& wanted,
              int n_at_once, const std::atomic<bool>& stop);

  /// None if the trial failed.
  std::optional<run::CostPrediction> CostOf(std::size_t step) const;

  /// The error of its trial, if it failed.
  std::string FailureAt(std::size_t step) const;

 private:
  struct Trial {
    std::size_t step = 0;
    run::CostPredictions costs;  // empty: failed
    std::string failure;
  };

  const SuiteStep& TriedFor(std::size_t step) const;

  std::span<const SuiteStep> steps_;
  std::map<std::string, Trial> trials_;
};

}  // namespace dp_bench::suite
