// The noise prediction network of Diffusion Policy, transformer version (Chi et al. 2023, Sec.
// III-B; upstream's TransformerForDiffusion). Action tokens attend to themselves and to condition
// tokens: the diffusion timestep and the observation steps. Tensor names and shapes are upstream's,
// so weights can be exchanged.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "dp_bench/policy/kernels/token_ops.h"
#include "policy/networks/transformer_layer.h"

namespace dp_bench::policy {

/// Sizes and variants of the transformer.
struct TransformerConfig {
  std::int64_t action_dim = 0;       // Da
  std::int64_t obs_feature_dim = 0;  // Do
  std::int64_t horizon = 16;         // T
  std::int64_t n_obs_steps = 2;      // To
  std::int64_t n_layer = 4;
  std::int64_t n_head = 8;
  std::int64_t n_emb = 512;
  std::int64_t n_cond_layers = 0;  // transformer layers over the condition; 0: an MLP per token
  double p_drop_emb = 0.1;
  double p_drop_attn = 0.1;   // everything within the layers
  bool causal_attn = false;   // no token attends to later ones
  bool time_as_cond = true;   // otherwise the timestep is the first token, and there is no memory
  bool obs_as_cond = true;    // otherwise observations are additional input channels
  bool has_time_mlp = false;  // of the timestep's sinusoidal embedding; otherwise that itself
  bool is_pre_norm = true;    // otherwise post-norm, as in Vaswani et al. 2017
  bool has_qkv_bias = true;
  bool is_position_learned = true;  // otherwise sinusoidal
};

/// The transformer of Diffusion Policy: action tokens attend to timestep and observations.
class DiffusionTransformerImpl : public torch::nn::Module {
 public:
  /// Throws Error{kConfig} for settings that cannot work.
  explicit DiffusionTransformerImpl(const TransformerConfig& config);

  /// sample [B, T, Da], times [B], cond [B, To, Do] -> [B, T, Da]. Without masks there is
  /// no dropout.
  torch::Tensor forward(const torch::Tensor& sample, const torch::Tensor& times,
                        const torch::Tensor& cond, DropoutMasks* dropout = nullptr);

  /// Everything that is constant over the denoising steps of one call, computed once.
  struct Conditioning {
    torch::Tensor inputs;   // [B or 1, T, d]: the action tokens without the actions
    torch::Tensor time;     // [n_times, d]: the time tokens, if there is no memory
    torch::Tensor kv_time;  // [n_times, n_layer * 2d]: depends only on the weights
    torch::Tensor kv_obs;   // [B, To, n_layer * 2d]; undefined without observation tokens
    torch::Tensor kv;       // [n_times, B, S, n_layer * 2d], if condition tokens attend to
                            // each other; otherwise undefined
  };
  Conditioning Condition(const std::vector<double>& times, const torch::Tensor& cond);

  /// `forward` for times[step] in all rows, without gradient: sample [B, T, Da] -> [B, T, Da].
  torch::Tensor Predict(const torch::Tensor& sample, const Conditioning& conditioning,
                        std::int64_t step);

  /// Drops the inference caches that were derived from the weights.
  void DropCaches();

  /// For every layer, see gradient_checkpoint.h; off by default.
  void set_gradient_checkpointing(bool is_on) { is_checkpointing_ = is_on; }

 private:
  bool has_memory() const { return config_.time_as_cond; }
  void MakeCondition();
  void MakeMasks();
  torch::Tensor AddPositions(const std::string& name, std::int64_t n);
  torch::Tensor EmbedTimes(const torch::Tensor& times);
  torch::Tensor InputChannels(const torch::Tensor& cond) const;
  torch::Tensor ConditionTokens(const torch::Tensor& time, const torch::Tensor& obs) const;
  void RunLayer(TransformerLayer& layer, TokenStream& stream, const torch::Tensor& kv,
                const LayerInputs& inputs) const;
  torch::Tensor Encode(const torch::Tensor& tokens, DropoutMasks* dropout);
  torch::Tensor KeyValueWeights() const;
  torch::Tensor MemoryOfStep(const Conditioning& conditioning, std::int64_t step,
                             std::int64_t batch) const;
  torch::Tensor Decode(const torch::Tensor& tokens, const std::vector<torch::Tensor>& kvs,
                       DropoutMasks* dropout);

  TransformerConfig config_;
  bool is_checkpointing_ = false;
  torch::nn::Linear time_mlp1_{nullptr};  // null unless has_time_mlp
  torch::nn::Linear time_mlp2_{nullptr};
  torch::nn::Linear input_emb_{nullptr};
  torch::Tensor pos_emb_;                    // [1, T, d], one more without memory
  torch::nn::Linear cond_obs_emb_{nullptr};  // null unless obs_as_cond
  torch::Tensor cond_pos_emb_;               // [1, S, d]; undefined without memory
  torch::nn::Linear encoder_mlp1_{nullptr};  // null with n_cond_layers or without memory
  torch::nn::Linear encoder_mlp2_{nullptr};
  std::vector<TransformerLayer> encoder_layers_;
  std::vector<TransformerLayer> layers_;  // of the decoder, or all layers if there is no memory
  torch::nn::LayerNorm ln_f_{nullptr};
  torch::nn::Linear head_{nullptr};
  torch::Tensor mask_;         // [T, T], -inf for excluded tokens; undefined unless causal_attn
  torch::Tensor memory_mask_;  // [T, S], likewise

  torch::Tensor kv_weight_;  // cache: KeyValueWeights()
  torch::Tensor kv_time_;    // cache for cached_times_
  std::vector<double> cached_times_;
};
TORCH_MODULE(DiffusionTransformer);

}  // namespace dp_bench::policy
