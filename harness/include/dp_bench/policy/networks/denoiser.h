// The network of a diffusion policy: predicts the noise in an action sequence, or whatever its
// objective asks for, from the features of the observation window.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "dp_bench/policy.h"
#include "dp_bench/tensor.h"

namespace dp_bench::policy {

/// The channels of a denoiser's inputs, per step. There are two ways to condition on observations
/// (Chi et al. 2023, Sec. III; Janner et al. 2022 for the second).
struct DenoiserChannels {
  bool inpaints_obs =
      false;                // the denoised sequence has the observation features beside the action
  std::int64_t sample = 0;  // of the denoised sequence: Da, with inpainting Da + Do, with a prefix
                            // Da + 1
  std::int64_t cond = 0;    // of the condition: Do, with inpainting 0
  std::int64_t task = 0;    // of these, the last ones: an embedding of the task
  int max_prefix = 0;       // first actions of a chunk that may be given; their steps are 1 in the
                            // last channel of the sequence

  /// Reads obs_as_global_cond and max_prefix from `params`, the params of the policy.
  static DenoiserChannels FromConfig(const Config& params, const PolicySpec& spec,
                                     std::int64_t obs_feature_dim, std::int64_t task_dim = 0);
};

/// The network for one chunk: (naction [B, T, Da], index into the times) -> prediction [B, T,
/// Da]. With inpainting, Da + Do in place of Da here and below, and Do = 0. It refers to the
/// denoiser and is valid only until the denoiser or its weights change.
using ConditionedDenoiser = std::function<torch::Tensor(const torch::Tensor&, std::int64_t)>;

/// The parameters belong to the module that the denoiser was created with.
class Denoiser {
 public:
  Denoiser() = default;
  Denoiser(const Denoiser&) = delete;
  Denoiser& operator=(const Denoiser&) = delete;
  virtual ~Denoiser() = default;

  /// Training: noisy [B, T, Da], times [B], int64 or float32, cond [B, To, Do] -> [B, T, Da]. A
  /// time is a timestep of the diffusion or, for other objectives, any number from 0 to 100.
  /// `noise` is the source of dropout masks, null in evaluation.
  virtual torch::Tensor Forward(const torch::Tensor& noisy, const torch::Tensor& times,
                                const torch::Tensor& cond, NoiseSource* noise) = 0;

  /// Inference, without gradient: computes once what the denoising steps at `times` share.
  virtual ConditionedDenoiser Condition(const std::vector<double>& times,
                                        const torch::Tensor& cond) = 0;

  /// Drops the caches that were derived from the weights.
  virtual void DropCaches() = 0;

  /// See gradient_checkpoint.h; off by default.
  virtual void set_gradient_checkpointing(bool is_on) = 0;
};

/// The conditional UNet1D. Reads down_dims, kernel_size, n_groups, diffusion_step_embed_dim and
/// cond_predict_scale from `params`; registers `unet` with `parent`. Throws Error{kConfig} for
/// settings that cannot work.
std::shared_ptr<Denoiser> MakeUnetDenoiser(const Config& params, const PolicySpec& spec,
                                           const DenoiserChannels& channels,
                                           torch::nn::Module& parent);

/// The transformer. Reads n_layer, n_head, n_emb, n_cond_layers, p_drop_emb, p_drop_attn,
/// causal_attn, time_as_cond, obs_as_cond, time_embedding, norm, position, qkv_bias and weight_init
/// from `params`; registers `transformer` with `parent`. Throws as MakeUnetDenoiser.
std::shared_ptr<Denoiser> MakeTransformerDenoiser(const Config& params, const PolicySpec& spec,
                                                  const DenoiserChannels& channels,
                                                  torch::nn::Module& parent);

}  // namespace dp_bench::policy
