// See image_encoder.h.
#include "dp_bench/policy/vision/image_encoder.h"

#include "dp_bench/policy/kernels/autocast.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/stage_trace.h"

namespace dp_bench::policy {

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
  const Tensor keypoints = FullPrecision(ApplyConv2d(nets_, features));  // [N, K, H, W]
  // bfloat16 has only 8 bits for a position among the pixels
  const AutocastGuard full_precision(features.device().type());
  const Tensor attention = torch::softmax(keypoints.flatten(2), /*dim=*/-1);  // [N, K, H * W]
  return RowProduct(attention, pos_grid_.t());
}

ImageEncoderConfig ImageEncoderConfig::FromConfig(const Config& settings) {
  ImageEncoderConfig config;
  config.backbone.norm = settings.Get<bool>("use_group_norm", true, "group norm; false: batch norm")
                             ? NormKind::kGroup
                             : NormKind::kBatch;
  config.backbone.width =
      settings.GetInRange("resnet_width", config.backbone.width, 8, 256,
                          "channels of the first stage; each stage doubles them");
  config.backbone.n_stages = settings.GetInRange("resnet_stages", config.backbone.n_stages, 1, 4,
                                                 "stages of two blocks; 4 make a ResNet-18");
  config.spatial_softmax_num_keypoints =
      settings.GetInRange("spatial_softmax_num_keypoints", config.spatial_softmax_num_keypoints, 1,
                          4096, "points per image; each gives two features");
  return config;
}

ImageEncoderImpl::ImageEncoderImpl(const ImageEncoderConfig& config)
    : backbone_(register_module("backbone", Resnet(config.backbone))) {
  const std::int64_t stride = backbone_->stride();
  const auto reduced = [stride](std::int64_t n) { return (n + stride - 1) / stride; };
  pool_ = register_module(
      "pool", SpatialSoftmax(backbone_->out_channels(), reduced(config.height),
                             reduced(config.width), config.spatial_softmax_num_keypoints));
  out_ = register_module("out", torch::nn::Linear(config.feature_dim(), config.feature_dim()));
}

Tensor ImageEncoderImpl::forward(const Tensor& images) {
  const Tensor map = backbone_(images);
  TraceStage("  feature map", map);
  const Tensor keypoints = pool_(map);
  TraceStage("  keypoints", keypoints);
  return torch::relu(ApplyLinear(out_, keypoints.flatten(1)));
}

}  // namespace dp_bench::policy
