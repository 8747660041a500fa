// Changes of colour and content for training image policies, after the Kuavo challenge's
// RGB_Augmenter. Each sequence of images gets exactly one change, drawn by weight.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/tensor.h"

namespace dp_bench::policy {

/// Shares of pixels are rounded down.
class ImageAugmentation {
 public:
  /// Changes nothing.
  ImageAugmentation() = default;

  /// Reads `augmentation` of `params`; if it is absent or empty, nothing changes. Throws
  /// Error{kConfig} that names the key for unknown types, settings out of range, and weights that
  /// are all 0.
  explicit ImageAugmentation(const Config& params);

  bool empty() const { return entries_.empty(); }

  /// images [B, To, 3, H, W], float32 in [0, 1], on any device -> the same shape, range and device;
  /// a new tensor, except that an empty augmentation returns `images`. The steps of a row get the
  /// same change; only the pixels of gaussian_noise are drawn for each step, as a camera does.
  ///
  /// Each row draws the same few numbers from its kAugment stream, whatever it gets, so what
  /// happens to it depends neither on the other rows nor on B. Throws Error{kShape} when images
  /// have another shape or dtype, or not one row for each of `noise`.
  torch::Tensor Apply(const torch::Tensor& images, NoiseSource& noise) const;

  /// What rows drew besides the choice of their change.
  struct Draws {
    torch::Tensor uniform;                  // [R, 2] float32, U[0, 1)
    std::vector<std::uint64_t> noise_keys;  // [R], see AddGaussianNoise
  };

  /// images [R, To, 3, H, W], the rows that drew this change -> changed images. Empty: no change.
  using Change = std::function<torch::Tensor(const torch::Tensor& images, const Draws& draws)>;

 private:
  struct Entry {
    Change change;
    double cumulative_weight = 0.0;  // of this and the entries before it
  };

  std::size_t Choose(float uniform) const;

  std::vector<Entry> entries_;
};

// The changes that it draws from. The adjustments are those of torchvision.transforms.functional
// for float images.
//
// In all of them `images` is [R, To, 3, H, W], float32 in [0, 1], on any device; the result is a
// new tensor like it. Values per row apply to all steps of the row, and may be on the CPU. No row
// of a result depends on its neighbours: means and powers are computed in float64, so that neither
// the number of rows nor the number of threads matters.

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
/// selects the noise of each row, which is the same on all devices: FillGaussianFields.
torch::Tensor AddGaussianNoise(const torch::Tensor& images, const std::vector<std::uint64_t>& keys,
                               double sigma);

}  // namespace dp_bench::policy
