// Turns a diffusion policy's window of observations into one feature vector per step. The denoiser
// does not know where the features come from.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dp_bench/policy.h"

namespace dp_bench::policy {

/// The parameters belong to the module that the encoder was created with.
class ObsEncoder {
 public:
  ObsEncoder() = default;
  ObsEncoder(const ObsEncoder&) = delete;
  ObsEncoder& operator=(const ObsEncoder&) = delete;
  virtual ~ObsEncoder() = default;

  /// Do: features of one observation step.
  virtual std::int64_t feature_dim() const = 0;

  /// obs as in Batch, in raw units -> [B, To, Do]. `augment` is the source of random crops and
  /// other augmentation in training, null in evaluation.
  virtual torch::Tensor Encode(const TensorMap& obs, const Normalizer& normalizer,
                               NoiseSource* augment) = 0;

  /// See gradient_checkpoint.h; off by default.
  virtual void set_gradient_checkpointing(bool is_on) = 0;

  /// How many of the features, the last ones, are an embedding of the task; 0 if there is none.
  virtual std::int64_t task_dim() const { return 0; }
};

/// The low_dim keys in alphabetical order. Throws Error{kConfig} if there is a depth key.
std::vector<KeySpec> LowDimKeys(const PolicySpec& spec);

/// The encoder of "hybrid" policies. For each step, oldest first: all low_dim keys unchanged, in
/// alphabetical order, then the features of each camera, from a ResNet, then a linear embedding of
/// the task key. Reads obs_encoder, task_embed_dim and the keys of VisionPipeline from `params`;
/// registers `rgb_encoder` with `parent` if shape_meta has cameras, and `task_encoder` if it has a
/// task key. Throws Error{kConfig} for depth keys and for settings that do not fit the cameras.
std::unique_ptr<ObsEncoder> MakeHybridObsEncoder(const Config& params, const PolicySpec& spec,
                                                 torch::nn::Module& parent);

}  // namespace dp_bench::policy
