// See sampling_trace.h.
#include "train/sampling_trace.h"

#include <utility>

namespace dp_bench::train {
namespace {

double NumberOf(const torch::Tensor& scalar) { return scalar.to(torch::kFloat64).item<double>(); }

torch::Tensor CopyOnHost(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

void SamplingTrace::Note(std::string_view stage, const torch::Tensor& tensor) {
  if (stage == "noise") samples_ = {CopyOnHost(tensor)};
  if (stage == "timestep") next_.timestep = tensor.item<double>();
  if (stage == "clipped values") next_.n_clipped = tensor.item<std::int64_t>();
  if (stage == "denoised action") {
    const torch::Tensor x_0 = CopyOnHost(tensor);
    next_.x_0_min = NumberOf(x_0.min());
    next_.x_0_max = NumberOf(x_0.max());
    next_.x_0_std = NumberOf(x_0.std(/*unbiased=*/false));
    if (x_0_.defined()) next_.x_0_change = NumberOf((x_0 - x_0_).square().mean().sqrt());
    next_.n_values = x_0.numel();
    x_0_ = x_0;
  }
  if (stage != "sample") return;
  const torch::Tensor sample = CopyOnHost(tensor);
  next_.min = NumberOf(sample.min());
  next_.max = NumberOf(sample.max());
  next_.mean = NumberOf(sample.mean());
  next_.std = NumberOf(sample.std(/*unbiased=*/false));
  samples_.push_back(sample);
  steps_.push_back(std::exchange(next_, {}));
}

SamplingStep ClippedInAll(const std::vector<SamplingStep>& steps) {
  SamplingStep all;
  for (const SamplingStep& step : steps) {
    all.n_clipped += step.n_clipped;
    all.n_values += step.n_values;
  }
  return all;
}

}  // namespace dp_bench::train
