// ResNet of basic blocks (He et al. 2016) without its pooling and classifier; ResNet-18 by default.
// Tensor names are those of LeRobot's `backbone`: torchvision's children as "0" (conv1), "1"
// (norm), "4" to "7" (layer1 to layer4).
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>

namespace dp_bench::policy {

/// kGroup: GroupNorm with C / 16 groups, as in Diffusion Policy, because averaged (EMA) weights and
/// batch statistics do not go together. kBatch: BatchNorm. kFrozenBatch: BatchNorm whose numbers
/// are buffers that training leaves alone, as torchvision's FrozenBatchNorm2d; a new network's are
/// those of the identity.
enum class NormKind { kGroup, kBatch, kFrozenBatch };

/// Width, depth and normalization of a ResNet.
struct ResnetConfig {
  std::int64_t in_channels = 3;
  NormKind norm = NormKind::kGroup;
  std::int64_t width = 64;    // channels of the first stage; each further one has twice as many
  std::int64_t n_stages = 4;  // of two blocks; each but the first halves height and width
  bool has_torchvision_names = false;  // "conv1", "bn1", "layer1"... in place of numbers
};

/// images [N, C, H, W] -> [N, out_channels, ceil(H / stride), ceil(W / stride)].
class ResnetImpl : public torch::nn::Module {
 public:
  explicit ResnetImpl(const ResnetConfig& config);

  torch::Tensor forward(const torch::Tensor& images);

  /// For the stem and each block, see gradient_checkpoint.h; off by default.
  void set_gradient_checkpointing(bool is_on) { is_checkpointing_ = is_on; }

  std::int64_t out_channels() const { return out_channels_; }
  std::int64_t stride() const { return stride_; }

 private:
  torch::Tensor ForwardCheckpointed(const torch::Tensor& images);

  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::AnyModule norm1_;
  torch::nn::Sequential layers_;  // not registered: its blocks are, under torchvision's names
  std::int64_t out_channels_;
  std::int64_t stride_ = 4;  // of the stem
  bool is_checkpointing_ = false;
};
TORCH_MODULE(Resnet);

}  // namespace dp_bench::policy
