// The observation encoder of the RGB-D fusion policy: one image encoder per modality for all
// cameras, fused by attention, plus the encoded state.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "camera_fusion.h"
#include "dp_bench/policy.h"
#include "dp_bench/policy/vision/image_encoder.h"
#include "dp_bench/policy/vision/obs_encoder.h"
#include "dp_bench/policy/vision/vision_pipeline.h"

namespace dp_bench::rgbd_fusion {

class RgbdObsEncoder final : public policy::ObsEncoder {
 public:
  /// Reads obs_encoder and the keys of VisionPipeline from `params`; registers `rgb_encoder`,
  /// `depth_encoder`, `fusion` and `state_encoder` with `parent`. Throws Error{kConfig} for a
  /// shape_meta without cameras or with depth for only some of them, and for settings that cannot
  /// work.
  RgbdObsEncoder(const Config& params, const PolicySpec& spec, torch::nn::Module& parent);

  std::int64_t feature_dim() const override { return feature_dim_; }

  /// For each observation step, oldest first: colour of all cameras in alphabetical order, depth of
  /// all cameras, state.
  torch::Tensor Encode(const TensorMap& obs, const Normalizer& normalizer,
                       NoiseSource* augment) override;

  void set_gradient_checkpointing(bool is_on) override;

 private:
  void AddStateEncoder(const Config& settings, torch::nn::Module& parent);
  void TraceParts(const torch::Tensor& fused) const;
  torch::Tensor EncodeState(const TensorMap& obs, const Normalizer& normalizer);

  std::vector<KeySpec> low_dim_;
  std::vector<policy::Camera> cameras_;
  policy::VisionPipeline pipeline_;
  policy::ImageEncoder rgb_encoder_{nullptr};    // one for all cameras
  policy::ImageEncoder depth_encoder_{nullptr};  // likewise; null without depth
  CameraFusion fusion_{nullptr};
  torch::nn::Linear state_linear1_{nullptr};  // null without low_dim keys
  torch::nn::Linear state_linear2_{nullptr};
  std::int64_t feature_dim_ = 0;
};

}  // namespace dp_bench::rgbd_fusion
