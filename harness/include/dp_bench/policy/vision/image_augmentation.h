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

/// Shares of pixels are rounded down. image_operations.h has the details.
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

}  // namespace dp_bench::policy
