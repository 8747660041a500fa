// Watches a policy denoise one plan. Includes LibTorch.
#pragma once

#include <optional>

#include "dp_bench/policy.h"
#include "rollout/policy_latency.h"
#include "run/planning.h"

namespace dp_bench::rollout {

/// Plans for one recorded observation, with the noise of its rollout, and keeps at most 10 of the
/// samples on the way, evenly with the first and the last, and at most 12 dimensions of them. None
/// for a policy that notes no `sample` stages (stage_trace.h): it does not denoise; and none when a
/// sample is not finite. Changes nothing that is rolled out.
std::optional<run::Denoising> RecordDenoising(Policy& policy, torch::Device device,
                                              const RecordedObs& recorded);

}  // namespace dp_bench::rollout
