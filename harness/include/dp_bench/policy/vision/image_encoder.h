// The image encoder of Diffusion Policy (Chi et al. 2023, Sec. III-B): ResNet, spatial softmax
// (Finn et al. 2016, "Deep spatial autoencoders"), linear layer. Tensor names are those of
// LeRobot's `rgb_encoder`.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "dp_bench/config.h"

namespace dp_bench::policy {

class ResnetImpl;
class SpatialSoftmaxImpl;

/// The input, the backbone (a ResNet of basic blocks) and the pooling of an image encoder.
struct ImageEncoderConfig {
  std::int64_t in_channels = 3;
  std::int64_t height = 96;  // of the encoder's input: after crop and resize
  std::int64_t width = 96;
  bool has_group_norm = true;      // otherwise batch norm
  std::int64_t resnet_width = 64;  // channels of the first stage; each further one has twice
  std::int64_t resnet_stages = 4;  // of two blocks; 4 make a ResNet-18
  std::int64_t spatial_softmax_num_keypoints = 32;  // K

  static ImageEncoderConfig FromConfig(const Config& settings);

  std::int64_t feature_dim() const { return 2 * spatial_softmax_num_keypoints; }
};

/// images [N, C, H, W], normalized -> features [N, 2K].
class ImageEncoderImpl : public torch::nn::Module {
 public:
  explicit ImageEncoderImpl(const ImageEncoderConfig& config);

  torch::Tensor forward(const torch::Tensor& images);

  /// Recomputes the inside of each block in the backward pass, which saves memory; off by default.
  void set_gradient_checkpointing(bool is_on);

 private:
  std::shared_ptr<ResnetImpl> backbone_;
  std::shared_ptr<SpatialSoftmaxImpl> pool_;
  torch::nn::Linear out_{nullptr};
};
TORCH_MODULE(ImageEncoder);

}  // namespace dp_bench::policy
