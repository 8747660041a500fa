// Evaluations of one checkpoint that differ in the time that a plan takes, and in what is executed
// meanwhile: dp_bench eval --delays, --latencies, --execute and --chunking.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "evaluate/checkpoint_evaluation.h"

namespace dp_bench::evaluate {

/// Every combination is evaluated, except those with fewer steps from plan to plan than a plan
/// takes. An empty list leaves the config's value, but one of the first two has values.
struct DelayGrid {
  std::vector<int> delays;           // [control steps] that a plan takes
  std::vector<double> latencies_ms;  // the same as time
  std::vector<int> execute;          // [control steps] from plan to plan
  std::vector<std::string> methods;  // of env_runner.chunking, and "temporal_ensembling"

  bool empty() const {
    return delays.empty() && latencies_ms.empty() && execute.empty() && methods.empty();
  }
};

/// Evaluates each point of the grid in a folder of its own below the run folder, and writes
/// delays.json and delays.html there. `options.resume` names such a folder: what it has is kept,
/// what is missing runs. Returns the exit code: kExitInterrupted after a stop signal, that of
/// failed episodes if any evaluation has one. Throws Error{kUsage} for an unknown method, or a grid
/// without a point.
int EvaluateDelayGrid(CheckpointEvaluationOptions options, const DelayGrid& grid,
                      core::Communicator& ranks);

}  // namespace dp_bench::evaluate
