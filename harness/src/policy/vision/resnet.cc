// See resnet.h. Layout and initialisation follow torchvision's resnet18.
#include "dp_bench/policy/vision/resnet.h"

#include <torch/nn/modules/batchnorm.h>

#include <algorithm>
#include <memory>
#include <string>

#include "dp_bench/policy/kernels/row_product.h"
#include "policy/kernels/gradient_checkpoint.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// Convolution without bias; He initialization over the outputs, as in torchvision.
torch::nn::Conv2d MakeConv(std::int64_t in, std::int64_t out, std::int64_t kernel_size,
                           std::int64_t stride) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(in, out, kernel_size)
                             .stride(stride)
                             .padding(kernel_size / 2)
                             .bias(false));
  torch::nn::init::kaiming_normal_(conv->weight, /*a=*/0.0, torch::kFanOut, torch::kReLU);
  return conv;
}

// y = (x - running_mean) / sqrt(running_var + eps) * weight + bias, per channel.
class FrozenBatchNormImpl : public torch::nn::Module {
 public:
  explicit FrozenBatchNormImpl(std::int64_t channels)
      : weight_(register_buffer("weight", torch::ones({channels}))),
        bias_(register_buffer("bias", torch::zeros({channels}))),
        mean_(register_buffer("running_mean", torch::zeros({channels}))),
        var_(register_buffer("running_var", torch::ones({channels}))) {}

  Tensor forward(const Tensor& x) {
    constexpr double kEps = 1e-5;
    const Tensor scale = weight_ * (var_ + kEps).rsqrt();
    const auto per_channel = [](const Tensor& values) { return values.view({1, -1, 1, 1}); };
    return x * per_channel(scale) + per_channel(bias_ - mean_ * scale);
  }

 private:
  Tensor weight_;
  Tensor bias_;
  Tensor mean_;
  Tensor var_;
};
TORCH_MODULE(FrozenBatchNorm);

// Registers the norm of `channels` with `parent` under `name`.
torch::nn::AnyModule AddNorm(torch::nn::Module& parent, const std::string& name, NormKind kind,
                             std::int64_t channels) {
  if (kind == NormKind::kBatch) {
    return torch::nn::AnyModule(parent.register_module(name, torch::nn::BatchNorm2d(channels)));
  }
  if (kind == NormKind::kFrozenBatch) {
    return torch::nn::AnyModule(parent.register_module(name, FrozenBatchNorm(channels)));
  }
  return torch::nn::AnyModule(parent.register_module(
      name, torch::nn::GroupNorm(std::max<std::int64_t>(1, channels / 16), channels)));
}

// In training, oneDNN's convolutions of large maps are faster with the channels innermost; those of
// maps with few pixels, which are mostly padding, are slower (docs/benchmarks.md).
Tensor InFasterLayout(const Tensor& x, std::int64_t stride) {
  constexpr std::int64_t kLargeMap = 5;  // [px]
  if (!torch::GradMode::is_enabled() || !x.device().is_cpu()) return x;
  const bool is_large = std::min(x.size(2), x.size(3)) >= kLargeMap * stride;
  return x.contiguous(is_large ? torch::MemoryFormat::ChannelsLast
                               : torch::MemoryFormat::Contiguous);
}

// Saves memory and its bandwidth in training: no layer's gradient needs what the relu replaces.
Tensor Relu(const Tensor& x) { return torch::GradMode::is_enabled() ? x.relu_() : torch::relu(x); }

// Two 3x3 convolutions and a shortcut around them.
class BasicBlockImpl : public torch::nn::Module {
 public:
  BasicBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride, NormKind norm)
      : conv1_(register_module("conv1", MakeConv(in, out, 3, stride))),
        norm1_(AddNorm(*this, "bn1", norm, out)),
        conv2_(register_module("conv2", MakeConv(out, out, 3, 1))),
        norm2_(AddNorm(*this, "bn2", norm, out)) {
    if (stride == 1 && in == out) return;
    const auto downsample =
        register_module("downsample", std::make_shared<torch::nn::Module>("downsample"));
    shortcut_conv_ = downsample->register_module("0", MakeConv(in, out, 1, stride));
    shortcut_norm_ = AddNorm(*downsample, "1", norm, out);
  }

  Tensor forward(const Tensor& input) {
    const Tensor x = InFasterLayout(input, conv1_->options.stride()->at(0));
    const Tensor hidden = Relu(norm1_.forward(ApplyConv2d(conv1_, x)));
    const Tensor out = norm2_.forward(ApplyConv2d(conv2_, hidden));
    const Tensor shortcut =
        shortcut_conv_.is_empty() ? x : shortcut_norm_.forward(ApplyConv2d(shortcut_conv_, x));
    return Relu(out + shortcut);
  }

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::AnyModule norm1_;
  torch::nn::Conv2d conv2_{nullptr};
  torch::nn::AnyModule norm2_;
  torch::nn::Conv2d shortcut_conv_{nullptr};
  torch::nn::AnyModule shortcut_norm_;
};
TORCH_MODULE(BasicBlock);

Tensor RunStem(torch::nn::Conv2d& conv, torch::nn::AnyModule& norm, const Tensor& images) {
  const Tensor stem = Relu(norm.forward(ApplyConv2d(conv, InFasterLayout(images, 2))));
  return torch::max_pool2d(stem, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
}

}  // namespace

ResnetImpl::ResnetImpl(const ResnetConfig& config) : out_channels_(config.width) {
  const bool is_named = config.has_torchvision_names;
  conv1_ =
      register_module(is_named ? "conv1" : "0", MakeConv(config.in_channels, config.width, 7, 2));
  norm1_ = AddNorm(*this, is_named ? "bn1" : "1", config.norm, config.width);
  for (std::int64_t i = 0; i < config.n_stages; ++i) {
    const auto layer =
        register_module(is_named ? "layer" + std::to_string(1 + i) : std::to_string(4 + i),
                        std::make_shared<torch::nn::Module>());
    const std::int64_t stage_channels = config.width << i;
    for (int j = 0; j < 2; ++j) {
      const std::int64_t stride = i > 0 && j == 0 ? 2 : 1;
      layers_->push_back(layer->register_module(
          std::to_string(j), BasicBlock(out_channels_, stage_channels, stride, config.norm)));
      out_channels_ = stage_channels;
      stride_ *= stride;
    }
  }
}

Tensor ResnetImpl::forward(const Tensor& images) {
  if (is_checkpointing_) return ForwardCheckpointed(images);
  return layers_->forward(RunStem(conv1_, norm1_, images));
}

Tensor ResnetImpl::ForwardCheckpointed(const Tensor& images) {
  using Tensors = CheckpointedBlock::Tensors;
  const CheckpointedBlock stem = {
      .modules = {conv1_.ptr(), norm1_.ptr()},
      .run = [conv = conv1_, norm = norm1_](const Tensors& inputs, DropoutMasks*) mutable {
        return Tensors{RunStem(conv, norm, inputs[0])};
      }};
  Tensor x = RunCheckpointed(stem, {images})[0];
  for (torch::nn::AnyModule& layer : *layers_) {
    const CheckpointedBlock block = {.modules = {layer.ptr()},
                                     .run = [layer](const Tensors& inputs, DropoutMasks*) mutable {
                                       return Tensors{layer.forward(inputs[0])};
                                     }};
    x = RunCheckpointed(block, {x})[0];
  }
  return x;
}

}  // namespace dp_bench::policy
