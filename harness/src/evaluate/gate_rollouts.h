// Rolls out a checkpoint on a baseline's seeds until the gate has a verdict.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "compare/gate.h"
#include "evaluate/checkpoint_evaluation.h"

namespace dp_bench::evaluate {

struct GateRolloutPlan {
  int n_first = 8;                 // episodes before the first look; 8 are enough for a signature
  int max_episodes = 0;            // upper limit
  bool stops_at_signature = true;  // else equal episodes count as ordinary pairs
  std::function<compare::GateResult(const run::RunFolder& candidate)> judge;
};

/// Rolls out the baseline's seeds block by block and judges after each block. Writes a run folder
/// with these episodes. Returns none after a stop signal. Throws Error{kData} if the baseline's
/// seeds are not consecutive, and what CheckpointEvaluation throws.
std::optional<compare::GateResult> GateByRollouts(CheckpointEvaluationOptions options,
                                                  const run::RunFolder& baseline,
                                                  const GateRolloutPlan& plan);

}  // namespace dp_bench::evaluate
