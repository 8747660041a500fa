// The gate's own rollouts: of a checkpoint, on the seeds of a baseline, until the verdict is there.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "compare/gate.h"
#include "experiment/checkpoint_evaluation.h"

namespace dp_bench::experiment {

struct GateRolloutPlan {
  int n_first = 8;                 // episodes before the first look; 8 suffice for a signature
  int max_episodes = 0;            // all that may be run
  bool stops_at_signature = true;  // else equal episodes count as pairs alone
  std::function<compare::GateResult(const run::RunFolder& candidate)> judge;
};

/// Rolls out the first seeds of the baseline, block by block, and judges after each block. Leaves a
/// run folder of the episodes that were run. Nothing when a signal ended it. Throws Error{kData}
/// when the baseline's seeds do not follow one another, and as CheckpointEvaluation does.
std::optional<compare::GateResult> GateByRollouts(CheckpointEvaluationOptions options,
                                                  const run::RunFolder& baseline,
                                                  const GateRolloutPlan& plan);

}  // namespace dp_bench::experiment
