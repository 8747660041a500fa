// Guidance of a sampled sequence towards actions that are known: real-time chunking (Black et al.
// 2025, arXiv 2506.07339, eq. 2 to 4, after Song et al. 2023, PiGDM). Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <functional>

#include "policy/sampling.h"

namespace dp_bench::policy {

struct Guidance {
  torch::Tensor target;   // [B, T, D], normalized
  torch::Tensor weights;  // [B, T, 1] or [B, T, D] in [0, 1]
  double max_weight = 5.0;
  bool is_given = false;  // see ChunkPrefix
};

/// How far a step moves x_0 towards the target, as a share of the weighted error. With tau =
/// signal_level / (signal_level + noise_level): (1 - tau) min(c / r^2, max_weight), c = (1 - tau) /
/// tau, r^2 = (1 - tau)^2 / ((1 - tau)^2 + tau^2). It is bounded so that no step moves the sequence
/// beyond the target, which binds only if max_weight is more than the number of steps, or for
/// samplers that jump.
double GuidanceShare(const SamplerStep& step, double max_weight);

/// The error of x_0 that follows from `output`, times the weights: [B, T, D].
torch::Tensor GuidanceError(const SamplerStep& step, const torch::Tensor& sample,
                            const torch::Tensor& output, const Guidance& guidance);

/// The network's output for which x_0 is moved by the share of `error`. For LeRobot's variant,
/// `error` is GuidanceError; for that of the paper it is multiplied by the Jacobian of x_0.
torch::Tensor GuidedOutput(const SamplerStep& step, const torch::Tensor& output,
                           const torch::Tensor& error, double max_weight);

/// The output for `sample`, guided through the Jacobian of x_0 as a function of the sample.
/// `forward` is the network with gradient.
torch::Tensor OutputGuidedThrough(const std::function<torch::Tensor(const torch::Tensor&)>& forward,
                                  const SamplerStep& step, const torch::Tensor& sample,
                                  const Guidance& guidance);

}  // namespace dp_bench::policy
