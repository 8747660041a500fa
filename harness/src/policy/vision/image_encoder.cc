// See image_encoder.h.
#include "dp_bench/policy/vision/image_encoder.h"

#include <torch/nn/modules/conv.h>

#include "dp_bench/config_keys.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/vision/resnet.h"
#include "dp_bench/stage_trace.h"
#include "policy/kernels/loop_tensors.h"

namespace dp_bench::policy {

using torch::Tensor;

/// The attention centre of each channel: [N, C, H, W] -> [N, K, 2], x then y in [-1, 1].
class SpatialSoftmaxImpl : public torch::nn::Module {
 public:
  SpatialSoftmaxImpl(std::int64_t channels, std::int64_t height, std::int64_t width,
                     std::int64_t num_keypoints) {
    nets_ = register_module(
        "nets", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, num_keypoints, 1)));
    const auto coordinates = [](std::int64_t n) {
      return torch::linspace(-1.0, 1.0, n, torch::kFloat64).to(torch::kFloat32);
    };
    const Tensor x = coordinates(width).repeat({height});
    const Tensor y = coordinates(height).repeat_interleave(width);
    pos_grid_ = register_buffer("pos_grid", torch::stack({x, y}, /*dim=*/1));
  }

  Tensor forward(const Tensor& features) {
    const Tensor keypoints = FullPrecision(ApplyConv2d(nets_, features));  // [N, K, H, W]
    // bfloat16 has only 8 bits for a position among the pixels
    const AutocastGuard full_precision(features.device().type());
    const Tensor attention = torch::softmax(keypoints.flatten(2), /*dim=*/-1);  // [N, K, H * W]
    return RowProduct(attention, pos_grid_.t());
  }

 private:
  torch::nn::Conv2d nets_{nullptr};
  Tensor pos_grid_;  // [H * W, 2]
};

ImageEncoderConfig ImageEncoderConfig::FromConfig(const Config& settings) {
  ImageEncoderConfig c;
  const ConfigKeys keys(settings);
  keys("use_group_norm", &c.has_group_norm, "group norm; false: batch norm");
  keys("resnet_width", &c.resnet_width, 8, 256,
       "channels of the first stage; each stage doubles them");
  keys("resnet_stages", &c.resnet_stages, 1, 4, "stages of two blocks; 4 make a ResNet-18");
  keys("spatial_softmax_num_keypoints", &c.spatial_softmax_num_keypoints, 1, 4096,
       "points per image; each gives two features");
  return c;
}

ImageEncoderImpl::ImageEncoderImpl(const ImageEncoderConfig& config)
    : backbone_(register_module(
          "backbone", std::make_shared<ResnetImpl>(ResnetConfig{
                          .in_channels = config.in_channels,
                          .norm = config.has_group_norm ? NormKind::kGroup : NormKind::kBatch,
                          .width = config.resnet_width,
                          .n_stages = config.resnet_stages}))) {
  const std::int64_t stride = backbone_->stride();
  const auto reduced = [stride](std::int64_t n) { return (n + stride - 1) / stride; };
  pool_ = register_module("pool", std::make_shared<SpatialSoftmaxImpl>(
                                      backbone_->out_channels(), reduced(config.height),
                                      reduced(config.width), config.spatial_softmax_num_keypoints));
  out_ = register_module("out", torch::nn::Linear(config.feature_dim(), config.feature_dim()));
}

Tensor ImageEncoderImpl::forward(const Tensor& images) {
  const Tensor map = backbone_->forward(images);
  TraceStage("  feature map", map);
  const Tensor keypoints = pool_->forward(map);
  TraceStage("  keypoints", keypoints);
  return torch::relu(ApplyLinear(out_, keypoints.flatten(1)));
}

void ImageEncoderImpl::set_gradient_checkpointing(bool is_on) {
  backbone_->set_gradient_checkpointing(is_on);
}

}  // namespace dp_bench::policy
