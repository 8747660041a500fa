// ResNet-18 (He et al. 2016) without its pooling and classifier. Tensor names are those of
// LeRobot's `backbone`: torchvision's children as "0" (conv1), "1" (norm), "4" to "7" (layer1 to
// layer4).
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace dp_bench::common {

/// kGroup: GroupNorm with C / 16 groups, as Diffusion Policy trains it, since averaged (EMA)
/// weights and batch statistics do not go together. kBatch: BatchNorm.
enum class NormKind { kGroup, kBatch };

/// images [N, C, H, W] -> [N, 512, ceil(H / 32), ceil(W / 32)].
class Resnet18Impl : public torch::nn::Module {
 public:
  Resnet18Impl(std::int64_t in_channels, NormKind norm);

  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::AnyModule norm1_;
  torch::nn::Sequential layers_;  // not registered: its blocks are, under torchvision's names
};
TORCH_MODULE(Resnet18);

}  // namespace dp_bench::common
