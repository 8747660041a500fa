// The image encoder of Diffusion Policy (Chi et al. 2023, Sec. III-B): ResNet, spatial softmax
// (Finn et al. 2016, "Deep spatial autoencoders"), linear layer. Tensor names are those of
// LeRobot's `rgb_encoder`.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>

#include "dp_bench/config.h"
#include "dp_bench/policy/vision/resnet.h"

namespace dp_bench::policy {

/// The attention centre of each channel: [N, C, H, W] -> [N, K, 2], x then y in [-1, 1].
class SpatialSoftmaxImpl : public torch::nn::Module {
 public:
  SpatialSoftmaxImpl(std::int64_t channels, std::int64_t height, std::int64_t width,
                     std::int64_t num_keypoints);

  torch::Tensor forward(const torch::Tensor& features);

 private:
  torch::nn::Conv2d nets_{nullptr};
  torch::Tensor pos_grid_;  // [H * W, 2]
};
TORCH_MODULE(SpatialSoftmax);

/// Size of the input, backbone and pooling of an image encoder.
struct ImageEncoderConfig {
  ResnetConfig backbone;
  std::int64_t height = 96;  // of the encoder's input: after crop and resize
  std::int64_t width = 96;
  std::int64_t spatial_softmax_num_keypoints = 32;  // K

  static ImageEncoderConfig FromConfig(const Config& settings);

  std::int64_t feature_dim() const { return 2 * spatial_softmax_num_keypoints; }
};

/// images [N, C, H, W], normalized -> features [N, 2K].
class ImageEncoderImpl : public torch::nn::Module {
 public:
  explicit ImageEncoderImpl(const ImageEncoderConfig& config);

  torch::Tensor forward(const torch::Tensor& images);

  /// For the backbone, see gradient_checkpoint.h.
  void set_gradient_checkpointing(bool is_on) { backbone_->set_gradient_checkpointing(is_on); }

 private:
  Resnet backbone_{nullptr};
  SpatialSoftmax pool_{nullptr};
  torch::nn::Linear out_{nullptr};
};
TORCH_MODULE(ImageEncoder);

}  // namespace dp_bench::policy
