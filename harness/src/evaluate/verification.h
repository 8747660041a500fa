// A verdict on a policy that plans faster: dp_bench eval --verify-against. Fewer bits, fewer steps,
// a student, another backend: all may cost success, and a test of actions does not show it.
#pragma once

#include <filesystem>
#include <string>

#include "evaluate/checkpoint_evaluation.h"

namespace dp_bench::evaluate {

struct VerificationOptions {
  std::filesystem::path reference;  // a checkpoint; empty: no verification
  double margin = 0.03;             // the drop of the success rate that PASS excludes, in (0, 1)
  std::string more_seeds = "repeat it with a larger env_runner.n_test and --overwrite";  // advice
};

/// Rolls out the reference on all test seeds into the folder OUTPUT_reference, with the overrides
/// of `options` except those of the policy. Then the candidate of `options` on the same seeds,
/// until the gate has a verdict (compare/gate.h), into `options.output`. Writes verification.json
/// there, and the verdict into the report of the candidate. Returns the exit code of the gate, or
/// core::kExitInterrupted.
int EvaluateVerified(const CheckpointEvaluationOptions& options,
                     const VerificationOptions& verification);

}  // namespace dp_bench::evaluate
