// Changes of colour and content for training image policies, after the Kuavo challenge's
// RGB_Augmenter: each sequence of images gets exactly one, drawn by weight.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/tensor.h"

namespace dp_bench::policy {

/// The changes to draw from are the keys of the object `augmentation` of a policy's params. Each
/// has a `weight`, not negative: it is drawn with probability weight / sum of all weights. The
/// numbers below are the defaults; {} for each of the ten changes nothing in 3 of 12 cases.
///
///   type            weight  settings              what it does
///   identity        3                             nothing: every bit stays
///   brightness      1       range [0.5, 1.5]      scales the colours by a factor within range
///   contrast        1       range [0.5, 1.5]      scales the distance from the mean grey
///   saturation      1       range [0.5, 1.5]      scales the distance from each pixel's grey
///   sharpness       1       range [0.5, 1.5]      scales the distance from the blurred image
///   hue             1       range [-0.05, 0.05]   turns the hue, in turns
///   gamma           1       range [0.5, 2]        raises to an exponent
///   random_mask     1       size [0.15, 0.15]     sets to 0 a rectangle at a random place; its
///                                                 share of height and width
///   border_cutout   1       fraction 0.15         sets to 0 that share of the height at the top or
///                                                 bottom, or of the width at the left or right:
///                                                 one of the four, at random
///   gaussian_noise  1       sigma 0.1             adds noise to every value, and clips
///
/// Shares of pixels are rounded down. image_operations.h tells the rest.
class ImageAugmentation {
 public:
  /// Changes nothing.
  ImageAugmentation() = default;

  /// Reads `augmentation` of `params`; absent or empty: changes nothing. Throws Error{kConfig} that
  /// names the key, for unknown types, for settings out of range and when all weights are 0.
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

  /// What rows drew beside the choice of their change.
  struct Draws {
    torch::Tensor uniform;                  // [R, 2] float32, U[0, 1)
    std::vector<std::uint64_t> noise_keys;  // [R], see AddGaussianNoise
  };

  /// images [R, To, 3, H, W], the rows that drew this change -> changed. Empty: none.
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
