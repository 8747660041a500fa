// The noise prediction network of Diffusion Policy (Chi et al. 2023, Sec. IV-A; Janner et al. 2022
// for the UNet): 1-D convolutions over time, conditioned on the diffusion timestep and the
// observations through FiLM. Tensor names and shapes are those of LeRobot's `diffusion.unet`, so
// weights can be exchanged.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "policy/networks/time_conv.h"

namespace dp_bench::policy {

/// Sizes and variants of the UNet.
struct UnetConfig {
  std::int64_t action_dim = 0;       // Da
  std::int64_t global_cond_dim = 0;  // G, per row: To * Do
  std::int64_t diffusion_step_embed_dim = 128;
  std::vector<std::int64_t> down_dims = {64, 128, 256};
  std::int64_t kernel_size = 5;
  std::int64_t n_groups = 8;       // of each GroupNorm
  bool cond_predict_scale = true;  // FiLM scales and offsets; else it offsets alone
};

/// Convolution, GroupNorm, Mish.
class Conv1dBlockImpl : public torch::nn::Module {
 public:
  Conv1dBlockImpl(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel_size,
                  std::int64_t n_groups);

  /// x [B, I, T] -> [B, O, T].
  torch::Tensor forward(const torch::Tensor& x);

  /// x [I, T, B] -> [O, T, B]; `film` and `residual` as in NormInputs, may be undefined.
  torch::Tensor ForwardTimeMajor(const torch::Tensor& x, const torch::Tensor& film,
                                 const torch::Tensor& residual);

 private:
  TimeConv conv_{nullptr};
  torch::nn::GroupNorm norm_{nullptr};
};
TORCH_MODULE(Conv1dBlock);

/// Two Conv1dBlocks with FiLM between them, and a shortcut around both.
class ConditionalResidualBlock1dImpl : public torch::nn::Module {
 public:
  ConditionalResidualBlock1dImpl(std::int64_t in_channels, std::int64_t out_channels,
                                 const UnetConfig& config);

  /// x [B, I, T], cond [B, E + G] after Mish -> [B, O, T].
  torch::Tensor forward(const torch::Tensor& x, const torch::Tensor& cond);

  /// x [I, T, B], film [2O or O, B] -> [O, T, B].
  torch::Tensor ForwardTimeMajor(const torch::Tensor& x, const torch::Tensor& film);

  /// The linear map from Mish(cond) to `film`.
  const torch::nn::Linear& cond_encoder() const { return cond_encoder_; }

 private:
  Conv1dBlock conv1_{nullptr};
  Conv1dBlock conv2_{nullptr};
  torch::nn::Linear cond_encoder_{nullptr};
  TimeConv residual_conv_{nullptr};  // null if the number of channels does not change
};
TORCH_MODULE(ConditionalResidualBlock1d);

/// For float32 on the CPU it runs on [C, T, B] with time_conv.h and fused_norm.h. Elsewhere, or on
/// request, it uses LibTorch's operators. Both give the same numbers up to rounding.
class ConditionalUnet1dImpl : public torch::nn::Module {
 public:
  explicit ConditionalUnet1dImpl(const UnetConfig& config);

  /// sample [B, T, Da], times [B], global_cond [B, G] -> [B, T, Da]. T must be a multiple
  /// of 2^(len(down_dims) - 1).
  torch::Tensor forward(const torch::Tensor& sample, const torch::Tensor& times,
                        const torch::Tensor& global_cond);

  /// Uses LibTorch's operators on [B, C, T] on any device.
  torch::Tensor ForwardReference(const torch::Tensor& sample, const torch::Tensor& times,
                                 const torch::Tensor& global_cond);

  /// Everything that is constant over the denoising steps of one call, computed once. On the CPU:
  /// the FiLM vectors of all blocks, split into the parts of the times and of the observations.
  struct Conditioning {
    std::vector<double> times;
    torch::Tensor global_cond;  // [B, G]
    torch::Tensor of_time;      // [n_times, F]: depends only on the weights
    torch::Tensor of_obs;       // [F, B]
  };
  Conditioning Condition(const std::vector<double>& times, const torch::Tensor& global_cond);

  /// `forward` for times[step] in all rows, without gradient: sample [B, T, Da] -> [B, T, Da].
  torch::Tensor Predict(const torch::Tensor& sample, const Conditioning& conditioning,
                        std::int64_t step);

  /// Drops the inference caches that were derived from the weights.
  void DropCaches();

  /// For every residual block, see gradient_checkpoint.h; off by default.
  void set_gradient_checkpointing(bool is_on) { is_checkpointing_ = is_on; }

 private:
  using BlockForward = torch::Tensor (ConditionalResidualBlock1dImpl::*)(const torch::Tensor&,
                                                                         const torch::Tensor&);

  static bool IsTimeMajor(const torch::Tensor& sample);
  torch::Tensor RunBlock(ConditionalResidualBlock1d block, BlockForward function,
                         const torch::Tensor& x, const torch::Tensor& cond) const;
  torch::Tensor EmbedTimes(const torch::Tensor& times);
  torch::Tensor RunTimeMajor(const torch::Tensor& sample, const std::vector<torch::Tensor>& films);

  UnetConfig config_;
  bool is_checkpointing_ = false;
  torch::nn::Linear step_linear1_{nullptr};
  torch::nn::Linear step_linear2_{nullptr};

  struct Level {
    ConditionalResidualBlock1d block1{nullptr};
    ConditionalResidualBlock1d block2{nullptr};
    TimeConv resample{nullptr};  // null in the last level on the way down
  };
  std::vector<Level> down_;
  std::vector<ConditionalResidualBlock1d> mid_;
  std::vector<Level> up_;
  Conv1dBlock final_block_{nullptr};
  TimeConv final_conv_{nullptr};

  std::vector<ConditionalResidualBlock1d> blocks_;  // in the order of execution
  torch::Tensor film_weight_;                       // cache: all cond_encoders, [F, E + G]
  torch::Tensor film_bias_;                         // cache: [F]
  std::vector<double> cached_times_;
  torch::Tensor of_time_;  // cache for cached_times_
};
TORCH_MODULE(ConditionalUnet1d);

}  // namespace dp_bench::policy
