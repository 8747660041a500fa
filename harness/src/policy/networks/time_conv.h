// 1-D convolutions over time on activations [C, T, B]: channels, time, batch. In that layout a
// kernel tap is one plain matrix product over a contiguous block of time steps. A convolution is
// then k products: no im2col, and no work for taps that only meet padding.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <mutex>
#include <vector>

namespace dp_bench::policy {

/// kSame: stride 1, odd kernel, keeps T. kDown: kernel 3, stride 2, padding 1, halves T. kUp:
/// transposed, kernel 4, stride 2, padding 1, doubles T.
enum class TimeConvKind { kSame, kDown, kUp };

/// Parameters, their default initialization and their shapes are those of torch::nn::Conv1d ([O, I,
/// k]) and, for kUp, of torch::nn::ConvTranspose1d ([I, O, k]). The strides of the weight are not:
/// its taps are apart in memory.
class TimeConvImpl : public torch::nn::Module {
 public:
  TimeConvImpl(TimeConvKind kind, std::int64_t in_channels, std::int64_t out_channels,
               std::int64_t kernel_size);

  /// x [B, I, T] -> [B, O, T'], for any device and dtype.
  torch::Tensor forward(const torch::Tensor& x);

  /// x [I, T, B] -> [O, T', B] without the bias; CPU float32, its products in autocast's type.
  torch::Tensor ForwardTimeMajor(const torch::Tensor& x);

  /// Adds the bias to the result of ForwardTimeMajor.
  torch::Tensor ForwardTimeMajorWithBias(const torch::Tensor& x);

  const torch::Tensor& bias() const { return bias_; }

  /// Drops the rearranged weights that are cached for inference.
  void DropCache() { cached_weights_.clear(); }

 private:
  torch::Tensor Apply(const torch::Tensor& x, const torch::Tensor& bias);
  std::vector<torch::Tensor> InferenceWeights();

  TimeConvKind kind_;
  torch::Tensor weight_;
  torch::Tensor bias_;
  std::vector<torch::Tensor> cached_weights_;  // for each phase of the result [O, taps * I]
  std::int64_t cached_version_ = 0;
  std::mutex cache_mutex_;  // for threads that plan with the same weights
};
TORCH_MODULE(TimeConv);

}  // namespace dp_bench::policy
