// See denoising_picture.h.
#include "train/denoising_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "media/curve_panels.h"

namespace dp_bench::train {
namespace {

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
