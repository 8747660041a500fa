// See sampling_trace.h.
#include "train/sampling_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "media/curve_panels.h"

namespace dp_bench::train {
namespace {

double NumberOf(const torch::Tensor& scalar) { return scalar.to(torch::kFloat64).item<double>(); }

torch::Tensor CopyOnHost(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, torch::kFloat32, /*non_blocking=*/false, /*copy=*/true);
}

constexpr std::int64_t kMaxChunks = 4;
constexpr std::size_t kMaxPanels = 7;  // of samples, in a row

// Of one row of [B, T, Da].
media::Curves CurvesOf(const torch::Tensor& batch, std::int64_t row) {
  const torch::Tensor chunk = batch[row].to(torch::kCPU, torch::kFloat32).contiguous();
  const float* values = chunk.const_data_ptr<float>();
  const std::int64_t n_dims = chunk.size(1);
  media::Curves curves(static_cast<std::size_t>(n_dims));
  for (std::int64_t i = 0; i < chunk.numel(); ++i) {
    curves[static_cast<std::size_t>(i % n_dims)].push_back(values[i]);
  }
  return curves;
}

// The places in `samples`: the noise, the result, and some between, evenly spread.
std::vector<std::size_t> ChosenSamples(std::size_t n_samples) {
  const std::size_t n = std::min(n_samples, kMaxPanels);
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < n; ++i) chosen.push_back(i * (n_samples - 1) / (n - 1));
  return chosen;
}

std::string CaptionOf(const SamplingTrace& trace, std::size_t sample) {
  if (sample == 0) return "noise";
  if (sample == trace.steps().size()) return "result";
  return fmt::format("after t = {:.6g}", trace.steps()[sample - 1].timestep);
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

RgbImage DrawDenoising(const SamplingTrace& trace, const torch::Tensor& recorded) {
  std::vector<std::vector<media::CurvePanel>> rows;
  for (std::int64_t row = 0; row < std::min(recorded.size(0), kMaxChunks); ++row) {
    const media::Curves real = CurvesOf(recorded, row);
    std::vector<media::CurvePanel> panels;
    for (const std::size_t sample : ChosenSamples(trace.samples().size())) {
      panels.push_back({.caption = CaptionOf(trace, sample),
                        .curves = CurvesOf(trace.samples()[sample], row),
                        .pale = real});
    }
    panels.push_back({.caption = "recorded", .curves = real});
    rows.push_back(std::move(panels));
  }
  const double largest = recorded.abs().max().item<double>();
  return media::DrawCurvePanels(rows, 1.25 * std::max(1.0, largest));
}

}  // namespace dp_bench::train
