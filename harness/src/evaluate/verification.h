// Verdicts that need rollouts: of dp_bench gate on a checkpoint, and of dp_bench eval
// --verify-against on a policy that plans faster. Fewer bits, fewer steps, a student, another
// backend: all may cost success, and a test of actions does not show it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "compare/gate.h"
#include "evaluate/checkpoint_evaluation.h"
#include "run/run_folder.h"

namespace dp_bench::evaluate {

/// Rolls out the baseline's seeds block by block and judges after each block. Writes a run folder
/// with these episodes. Returns none after a stop signal. Throws Error{kData} if the baseline's
/// seeds are not consecutive, and what CheckpointEvaluation throws.
std::optional<compare::GateResult> GateByRollouts(CheckpointEvaluationOptions options,
                                                  const run::RunFolder& baseline,
                                                  const compare::GateRolloutPlan& plan);

struct VerificationOptions {
  std::filesystem::path reference;  // a checkpoint; empty: no verification
  double margin = 0.03;             // the drop of the success rate that PASS excludes, in (0, 1)
  std::string more_seeds;           // advice after INCONCLUSIVE; empty: the command to resume
};

/// Rolls out the reference and the candidate of `options` on the same seeds, a block of both at a
/// time, until the gate has a verdict or the reference has all its test seeds. The reference has
/// the overrides of `options` except those of the policy, and the folder OUTPUT_reference; the
/// candidate has `options.output`. With `options.resume`, the folder of an earlier verification,
/// both keep their episodes and the overrides may only raise env_runner.n_test: the error rates
/// hold at every look. Writes verification.json there, and the verdict into the report of the
/// candidate. Returns the exit code of the gate, or core::kExitInterrupted. Throws Error{kUsage} if
/// the folder to resume has another reference or margin.
int EvaluateVerified(const CheckpointEvaluationOptions& options,
                     const VerificationOptions& verification);

}  // namespace dp_bench::evaluate
