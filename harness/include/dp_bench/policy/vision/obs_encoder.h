// Turns a diffusion policy's window of observations into one feature vector per step. The denoiser
// does not know where the features come from.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "dp_bench/normalizer.h"
#include "dp_bench/tensor.h"

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
};

}  // namespace dp_bench::policy
