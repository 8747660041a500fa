// The changes of colour and content that image augmentation draws from. The adjustments are those
// of torchvision.transforms.functional for float images.
//
// In all of them `images` is [R, To, 3, H, W], float32 in [0, 1], on any device; the result is a
// new tensor like it. Values per row apply to all steps of the row, and may be on the CPU. No row
// of a result depends on its neighbours: means and powers are computed in float64, so that neither
// the number of rows nor the number of threads matters.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace dp_bench::policy {

/// Scales the colours; `factor` [R] float32: 0 gives black, 1 changes nothing.
torch::Tensor AdjustBrightness(const torch::Tensor& images, const torch::Tensor& factor);

/// Scales the distance from the mean grey of each step; `factor` as above, 0 gives that grey.
torch::Tensor AdjustContrast(const torch::Tensor& images, const torch::Tensor& factor);

/// Scales the distance of each pixel from its grey; `factor` as above, 0 gives a grey image.
torch::Tensor AdjustSaturation(const torch::Tensor& images, const torch::Tensor& factor);

/// Scales the distance from a 3 x 3 average; `factor` as above, 0 blurs. Border pixels do not
/// change.
torch::Tensor AdjustSharpness(const torch::Tensor& images, const torch::Tensor& factor);

/// Turns the hue; `shift` [R] float32 in turns.
torch::Tensor AdjustHue(const torch::Tensor& images, const torch::Tensor& shift);

/// images ^ exponent; `exponent` [R] float32, at least 0.
torch::Tensor AdjustGamma(const torch::Tensor& images, const torch::Tensor& exponent);

/// Sets a rectangle of each row to 0: `rectangles` [R, 4] int64, rows of pixels [top, bottom) and
/// columns [left, right).
torch::Tensor BlackenRectangles(const torch::Tensor& images, const torch::Tensor& rectangles);

/// Adds N(0, sigma^2) to every value, drawn anew for every step, and clips to [0, 1]. `keys` [R]
/// selects the noise of each row, which is the same on all devices: gaussian_field.h.
torch::Tensor AddGaussianNoise(const torch::Tensor& images, const std::vector<std::uint64_t>& keys,
                               double sigma);

}  // namespace dp_bench::policy
