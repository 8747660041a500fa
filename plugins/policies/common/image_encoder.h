// The image encoder of Diffusion Policy (Chi et al. 2023, Sec. III-B): ResNet-18, spatial softmax
// (Finn et al. 2016, "Deep spatial autoencoders"), linear layer. Tensor names are those of
// LeRobot's `rgb_encoder`.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "resnet18.h"

namespace dp_bench::common {

/// Where the attention of each channel lies: [N, C, H, W] -> [N, K, 2], x then y in [-1, 1].
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

struct RgbEncoderConfig {
  std::int64_t channels = 3;
  std::int64_t height = 96;  // after cropping
  std::int64_t width = 96;
  NormKind norm = NormKind::kGroup;
  std::int64_t spatial_softmax_num_keypoints = 32;  // K
};

/// images [N, C, H, W], normalized -> features [N, 2K].
class RgbEncoderImpl : public torch::nn::Module {
 public:
  explicit RgbEncoderImpl(const RgbEncoderConfig& config);

  torch::Tensor forward(const torch::Tensor& images);

 private:
  Resnet18 backbone_{nullptr};
  SpatialSoftmax pool_{nullptr};
  torch::nn::Linear out_{nullptr};
};
TORCH_MODULE(RgbEncoder);

}  // namespace dp_bench::common
