// See transformer_denoiser.h.
#include "dp_bench/policy/networks/transformer_denoiser.h"

#include <optional>

namespace dp_bench::policy {
namespace {

using torch::Tensor;

TransformerConfig ReadTransformerConfig(const Config& params, const PolicySpec& spec,
                                        const DenoiserChannels& channels) {
  const TransformerConfig defaults;
  return {
      .action_dim = channels.sample,
      .obs_feature_dim = channels.cond,
      .horizon = spec.horizons.horizon,
      .n_obs_steps = spec.horizons.n_obs_steps,
      .n_layer = params.GetInRange("n_layer", defaults.n_layer, 1, 128, "transformer layers"),
      .n_head = params.GetInRange("n_head", defaults.n_head, 1, 256,
                                  "attention heads; must divide n_emb"),
      .n_emb = params.GetInRange("n_emb", defaults.n_emb, 4, 16384, "features of a token"),
      .n_cond_layers =
          params.GetInRange("n_cond_layers", defaults.n_cond_layers, 0, 128,
                            "transformer layers over the condition; 0: an MLP per token"),
      .p_drop_emb = params.GetInRange("p_drop_emb", defaults.p_drop_emb, 0.0, 0.95,
                                      "dropout of the embeddings"),
      .p_drop_attn = params.GetInRange("p_drop_attn", defaults.p_drop_attn, 0.0, 0.95,
                                       "dropout of everything within the layers"),
      .causal_attn =
          params.Get<bool>("causal_attn", defaults.causal_attn, "no token attends to later ones"),
      .time_as_cond = params.Get<bool>("time_as_cond", defaults.time_as_cond,
                                       "the denoising step is part of the condition; false: it is "
                                       "the first token, and there is no cross-attention"),
      .obs_as_cond = params.Get<bool>("obs_as_cond", defaults.obs_as_cond,
                                      "observations are part of the condition; false: they are "
                                      "further input channels; unused with inpainting") &&
                     !channels.inpaints_obs,
      .has_time_mlp = params.GetChoice("time_embedding", {"sinusoidal", "mlp"},
                                       "token of the denoising step: its sines and cosines, or an "
                                       "MLP of them") == "mlp",
      .is_pre_norm =
          params.GetChoice("norm", {"pre", "post"},
                           "layer norm before each block, as in TransformerForDiffusion, or after "
                           "it, as in Vaswani et al. 2017") == "pre",
      .has_qkv_bias = params.Get<bool>("qkv_bias", defaults.has_qkv_bias,
                                       "queries, keys and values have a bias"),
      .is_position_learned =
          params.GetChoice("position", {"learned", "sinusoidal"},
                           "embedding of the place in the sequence") == "learned"};
}

}  // namespace

TransformerDenoiser::TransformerDenoiser(const Config& params, const PolicySpec& spec,
                                         const DenoiserChannels& channels,
                                         torch::nn::Module& parent)
    : has_dropout_(false), transformer_(nullptr) {
  const TransformerConfig config = ReadTransformerConfig(params, spec, channels);
  has_dropout_ = config.p_drop_emb > 0.0 || config.p_drop_attn > 0.0;
  transformer_ = parent.register_module("transformer", DiffusionTransformer(config));
}

Tensor TransformerDenoiser::Forward(const Tensor& noisy, const Tensor& times, const Tensor& cond,
                                    NoiseSource* noise) {
  std::optional<DropoutMasks> masks;
  if (noise != nullptr && has_dropout_) masks.emplace(*noise);
  return transformer_->forward(noisy, times, cond, masks.has_value() ? &*masks : nullptr);
}

ConditionedDenoiser TransformerDenoiser::Condition(const std::vector<double>& times,
                                                   const Tensor& cond) {
  return [this, conditioning = transformer_->Condition(times, cond)](const Tensor& naction,
                                                                     std::int64_t step) {
    return transformer_->Predict(naction, conditioning, step);
  };
}

}  // namespace dp_bench::policy
