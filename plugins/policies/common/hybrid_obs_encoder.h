// The observation encoder of "hybrid" policies: low_dim values as they are, cameras through an
// image encoder after a crop.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "dp_bench/policy.h"
#include "obs_encoder.h"
#include "rgb_encoder.h"

namespace dp_bench::common {

class HybridObsEncoder final : public ObsEncoder {
 public:
  /// Reads crop_shape, crop_is_random and obs_encoder from `params`; registers `rgb_encoder` with
  /// `parent` when shape_meta has cameras. Throws Error{kConfig} for depth keys, cameras of
  /// different shapes and crops larger than the image.
  HybridObsEncoder(const Config& params, const PolicySpec& spec, torch::nn::Module& parent);

  std::int64_t feature_dim() const override { return feature_dim_; }

  /// For each observation step, oldest first: all low_dim keys in alphabetical order, then the
  /// features of each camera. Crops at random when `crop_noise` is given, else at the centre.
  torch::Tensor Encode(const TensorMap& obs, const Normalizer& normalizer,
                       NoiseSource* crop_noise) override;

 private:
  torch::Tensor Crop(const torch::Tensor& images, NoiseSource* crop_noise) const;

  std::int64_t n_obs_steps_;
  std::vector<KeySpec> low_dim_;
  std::vector<KeySpec> cameras_;
  std::int64_t crop_height_ = 0;
  std::int64_t crop_width_ = 0;
  bool crop_is_random_ = true;
  std::int64_t feature_dim_ = 0;
  std::vector<RgbEncoder> rgb_encoders_;  // one per camera, or one for all
};

}  // namespace dp_bench::common
