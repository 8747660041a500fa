// What an evaluation will cost, from a few of its episodes: dp_bench eval --dry-run.
#pragma once

#include "evaluate/checkpoint_evaluation.h"

namespace dp_bench::evaluate {

/// Runs some episodes in a temporary folder and prints time, processor time, memory and disk space
/// of all of them (or of the shard), and energy if the machine tells it. Returns the exit code.
/// Throws what CheckpointEvaluation throws.
int PredictCost(CheckpointEvaluationOptions options);

}  // namespace dp_bench::evaluate
