// dp_bench eval --perturb: the control, then each arm on the same seeds, then their effects.
#pragma once

#include <string>
#include <vector>

#include "evaluate/checkpoint_evaluation.h"

namespace dp_bench::evaluate {

/// Evaluates with `options`, then with each arm of `texts` (KIND or KIND=STRENGTH) in
/// perturbations/<arm> of the same run folder. Resuming runs only what is missing. Writes
/// perturbations.json and the report. Returns the exit code: kExitInterrupted after a stop signal,
/// that of failed episodes if any evaluation has one.
int EvaluateWithArms(CheckpointEvaluationOptions options, const std::vector<std::string>& texts,
                     core::Communicator& ranks);

}  // namespace dp_bench::evaluate
