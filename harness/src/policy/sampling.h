// How a policy samples action sequences, as numbers, and the loop that does it. All samplers of
// dp_bench are this loop with other coefficients, so a program that runs an exported policy needs
// no sampler of its own. Includes LibTorch.
#pragma once

#include <torch/types.h>

#include <functional>
#include <optional>
#include <vector>

namespace dp_bench::policy {

/// One evaluation of the network and the step that follows it. With x the sequence and o the
/// network's output for it:
///   x_0    = x0_from_sample * x + x0_from_output * o, clipped to +- clip
///   next x = next_from_x0 * x_0 + next_from_sample * x + next_from_output * o +
///            next_from_last_x0 * (x_0 of the step before) +
///            next_from_last_sample * (x of the step before) + noise * N(0, 1)
struct SamplerStep {
  double time = 0.0;  // goes into the network
  double x0_from_sample = 0.0;
  double x0_from_output = 0.0;
  std::optional<double> clip;
  double next_from_x0 = 0.0;
  double next_from_sample = 0.0;
  double next_from_output = 0.0;
  double next_from_last_x0 = 0.0;
  double next_from_last_sample = 0.0;  // not 0: corrects the step before (Heun's method)
  double noise = 0.0;

  // x is about signal_level * (the sequence that is sought) + noise_level * N(0, 1)
  double signal_level = 0.0;
  double noise_level = 1.0;
};

/// From the first sequence to the last, which is the plan.
struct SamplingPlan {
  bool starts_from_noise = true;  // N(0, 1); false: zeros
  bool inpaints_obs = false;      // before each evaluation, and at the end, the channels after the
                                  // action get the features of the To observed steps
  std::vector<SamplerStep> steps;
};

/// What the loop calls.
struct SamplingCalls {
  /// The network's output for sequences [B, T, D] at the time of steps[i].
  std::function<torch::Tensor(const torch::Tensor& sample, std::size_t i)> denoise;
  /// N(0, 1) numbers in the shape and on the device of a sequence.
  std::function<torch::Tensor()> draw_noise;
  double time_unit = 1.0;  // of the times that the stage trace shows
};

/// Plans from `initial`, noise or zeros [B, T, D]. `condition` [B, To, Do] is used with inpainting.
/// Returns [B, T, D], of which the first Da channels are the normalized actions. Runs without
/// gradient.
torch::Tensor RunSamplingPlan(const SamplingPlan& plan, const torch::Tensor& initial,
                              const torch::Tensor& condition, const SamplingCalls& calls);

}  // namespace dp_bench::policy
