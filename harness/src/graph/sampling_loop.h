// The loop of sampler.json: how every sampler of dp_bench plans.
#pragma once

#include <torch/types.h>

#include <functional>

#include "dp_bench/policy/networks/sampling_plan.h"

namespace dp_bench::graph {

/// What the loop calls.
struct SamplingCalls {
  /// The denoiser for sequences [B, T, D] at one time.
  std::function<torch::Tensor(const torch::Tensor& sample, double time)> denoise;
  /// N(0, 1) numbers in the shape of a sequence.
  std::function<torch::Tensor()> draw_noise;
};

/// Plans from `initial`, noise or zeros [B, T, D]. `condition` [B, To, Do] is used with inpainting.
/// Returns [B, T, D], of which the first Da channels are the normalized actions.
torch::Tensor RunSamplingPlan(const policy::SamplingPlan& plan, const torch::Tensor& initial,
                              const torch::Tensor& condition, const SamplingCalls& calls);

}  // namespace dp_bench::graph
