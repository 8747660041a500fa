// Records how a policy denoises one plan. Includes LibTorch.
#pragma once

#include <optional>

#include "dp_bench/policy.h"
#include "evaluate/policy_latency.h"
#include "run/planning.h"

namespace dp_bench::evaluate {

/// Plans for one recorded observation, with the noise of its rollout. Keeps at most 10 of the
/// intermediate samples, evenly spaced and including the first and the last, and at most 12
/// dimensions of each. Nothing if the policy records no `sample` stages (stage_trace.h), so does
/// not denoise, or if a sample is not finite. Does not affect rollouts.
std::optional<run::Denoising> RecordDenoising(Policy& policy, torch::Device device,
                                              const control::RecordedObs& recorded);

}  // namespace dp_bench::evaluate
