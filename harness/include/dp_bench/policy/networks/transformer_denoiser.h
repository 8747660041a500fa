// The diffusion transformer as a denoiser: its settings, and the source of its dropout.
#pragma once

#include <torch/nn/module.h>
#include <torch/types.h>

#include <vector>

#include "dp_bench/policy.h"
#include "dp_bench/policy/networks/denoiser.h"
#include "dp_bench/policy/networks/diffusion_transformer.h"

namespace dp_bench::policy {

/// The transformer as a `Denoiser`.
class TransformerDenoiser final : public Denoiser {
 public:
  /// Reads n_layer, n_head, n_emb, n_cond_layers, p_drop_emb, p_drop_attn, causal_attn,
  /// time_as_cond, obs_as_cond, time_embedding, norm, position and qkv_bias from `params`;
  /// registers `transformer` with `parent`. Throws Error{kConfig} for settings that cannot work.
  TransformerDenoiser(const Config& params, const PolicySpec& spec,
                      const DenoiserChannels& channels, torch::nn::Module& parent);

  torch::Tensor Forward(const torch::Tensor& noisy, const torch::Tensor& times,
                        const torch::Tensor& cond, NoiseSource* noise) override;
  ConditionedDenoiser Condition(const std::vector<double>& times,
                                const torch::Tensor& cond) override;
  void DropCaches() override { transformer_->DropCaches(); }
  void set_gradient_checkpointing(bool is_on) override {
    transformer_->set_gradient_checkpointing(is_on);
  }

 private:
  bool has_dropout_;
  DiffusionTransformer transformer_;
};

}  // namespace dp_bench::policy
