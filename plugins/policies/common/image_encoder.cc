// See rgb_encoder.h.
#include "rgb_encoder.h"

namespace dp_bench::common {

using torch::Tensor;

SpatialSoftmaxImpl::SpatialSoftmaxImpl(std::int64_t channels, std::int64_t height,
                                       std::int64_t width, std::int64_t num_keypoints) {
  nets_ = register_module("nets",
                          torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, num_keypoints, 1)));
  const auto coordinates = [](std::int64_t n) {
    return torch::linspace(-1.0, 1.0, n, torch::kFloat64).to(torch::kFloat32);
  };
  const Tensor x = coordinates(width).repeat({height});
  const Tensor y = coordinates(height).repeat_interleave(width);
  pos_grid_ = register_buffer("pos_grid", torch::stack({x, y}, /*dim=*/1));
}

Tensor SpatialSoftmaxImpl::forward(const Tensor& features) {
  const Tensor keypoints = nets_(features);                                   // [N, K, H, W]
  const Tensor attention = torch::softmax(keypoints.flatten(2), /*dim=*/-1);  // [N, K, H * W]
  return torch::matmul(attention, pos_grid_);
}

RgbEncoderImpl::RgbEncoderImpl(const RgbEncoderConfig& config) {
  constexpr std::int64_t kBackboneChannels = 512;
  constexpr std::int64_t kBackboneStride = 32;
  const auto reduced = [](std::int64_t n) { return (n + kBackboneStride - 1) / kBackboneStride; };
  backbone_ = register_module("backbone", Resnet18(config.channels, config.norm));
  pool_ = register_module(
      "pool", SpatialSoftmax(kBackboneChannels, reduced(config.height), reduced(config.width),
                             config.spatial_softmax_num_keypoints));
  const std::int64_t feature_dim = 2 * config.spatial_softmax_num_keypoints;
  out_ = register_module("out", torch::nn::Linear(feature_dim, feature_dim));
}

Tensor RgbEncoderImpl::forward(const Tensor& images) {
  return torch::relu(out_(pool_(backbone_(images)).flatten(1)));
}

}  // namespace dp_bench::common
