// What an evaluation will cost, from a few of its episodes: dp_bench eval --dry-run.
#pragma once

#include "evaluate/checkpoint_evaluation.h"
#include "run/cost_prediction.h"

namespace dp_bench::evaluate {

/// Runs up to 64 episodes in a temporary folder, and scales what they took to all of them (or to
/// the shard). None after a stop signal. Throws what CheckpointEvaluation throws.
std::optional<run::CostPrediction> PredictCost(CheckpointEvaluationOptions options);

/// The same of the evaluation that ends a run, from a few episodes of a policy that has trained for
/// some steps. Such a policy rarely solves the task early, so its episodes are long.
std::optional<run::CostPrediction> PredictEvaluation(const task::Experiment& experiment,
                                                     Policy& policy);

}  // namespace dp_bench::evaluate
