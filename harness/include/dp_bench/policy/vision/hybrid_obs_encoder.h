// The observation encoder of "hybrid" policies: low_dim values unchanged, cameras through an image
// encoder.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "dp_bench/policy.h"
#include "dp_bench/policy/vision/image_encoder.h"
#include "dp_bench/policy/vision/obs_encoder.h"
#include "dp_bench/policy/vision/vision_pipeline.h"

namespace dp_bench::policy {

/// Encodes colour images with a ResNet each and joins them with the low-dimensional observations.
class HybridObsEncoder final : public ObsEncoder {
 public:
  /// Reads obs_encoder and the keys of VisionPipeline from `params`; registers `rgb_encoder` with
  /// `parent` if shape_meta has cameras. Throws Error{kConfig} for depth keys and for settings that
  /// do not fit the cameras.
  HybridObsEncoder(const Config& params, const PolicySpec& spec, torch::nn::Module& parent);

  std::int64_t feature_dim() const override { return feature_dim_; }

  /// For each observation step, oldest first: all low_dim keys in alphabetical order, then the
  /// features of each camera.
  torch::Tensor Encode(const TensorMap& obs, const Normalizer& normalizer,
                       NoiseSource* augment) override;

  void set_gradient_checkpointing(bool is_on) override;

 private:
  std::vector<KeySpec> low_dim_;
  std::vector<Camera> cameras_;
  VisionPipeline pipeline_;
  std::int64_t feature_dim_ = 0;
  std::vector<ImageEncoder> rgb_encoders_;  // one per camera, or one for all
};

}  // namespace dp_bench::policy
