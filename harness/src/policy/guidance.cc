// See guidance.h.
#include "policy/guidance.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

namespace dp_bench::policy {
namespace {

using torch::Tensor;

Tensor X0Of(const SamplerStep& step, const Tensor& sample, const Tensor& output) {
  Tensor x_0 = output * step.x0_from_output;
  if (step.x0_from_sample != 0.0) x_0 = x_0 + sample * step.x0_from_sample;
  return step.clip ? x_0.clamp(-*step.clip, *step.clip) : x_0;
}

}  // namespace

double GuidanceShare(const SamplerStep& step, double max_weight) {
  const double tau = step.signal_level / (step.signal_level + step.noise_level);
  const double rest = 1.0 - tau;
  if (rest <= 0.0) return 0.0;
  double weight = max_weight;
  if (tau > 0.0) {
    weight = std::min(rest / tau * (rest * rest + tau * tau) / (rest * rest), max_weight);
  }
  // what the next sequence moves if x_0 moves by 1 and the output with it
  const double moves = step.next_from_x0 + step.next_from_output / step.x0_from_output;
  return moves > 0.0 ? std::min(rest * weight, 1.0 / moves) : rest * weight;
}

Tensor GuidanceError(const SamplerStep& step, const Tensor& sample, const Tensor& output,
                     const Guidance& guidance) {
  return (guidance.target - X0Of(step, sample, output)) * guidance.weights;
}

Tensor GuidedOutput(const SamplerStep& step, const Tensor& output, const Tensor& error,
                    double max_weight) {
  const double share = GuidanceShare(step, max_weight);
  if (share == 0.0) return output;  // x_0 may not depend on the output: heun's last correction
  return output + error * (share / step.x0_from_output);
}

Tensor OutputGuidedThrough(const std::function<Tensor(const Tensor&)>& forward,
                           const SamplerStep& step, const Tensor& sample,
                           const Guidance& guidance) {
  const torch::AutoGradMode with_gradient(true);
  const Tensor input = sample.detach().requires_grad_(true);
  const Tensor output = forward(input);
  const Tensor x_0 = X0Of(step, input, output);
  const Tensor error = ((guidance.target - x_0) * guidance.weights).detach();
  const Tensor product = torch::autograd::grad({x_0}, {input}, {error})[0];
  // x / (signal_level + noise_level) is the sequence of the paper, on a straight path to noise
  const double scale = step.signal_level + step.noise_level;
  return GuidedOutput(step, output.detach(), product * scale, guidance.max_weight);
}

}  // namespace dp_bench::policy
