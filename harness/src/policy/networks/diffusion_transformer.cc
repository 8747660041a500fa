// The noise prediction network of Diffusion Policy, transformer version (Chi et al. 2023, Sec.
// III-B; upstream's TransformerForDiffusion). Action tokens attend to themselves and to condition
// tokens: the diffusion timestep and the observation steps. Tensor names and shapes are upstream's,
// so weights can be exchanged.
#include <fmt/format.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/kernels/token_ops.h"
#include "dp_bench/policy/networks/denoiser.h"
#include "dp_bench/policy/networks/transformer_layer.h"
#include "dp_bench/stage_trace.h"
#include "policy/networks/sinusoidal_embedding.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

constexpr double kPositionStd = 0.02;  // of learned positions, as upstream

// Sizes and variants of the transformer.
struct TransformerConfig {
  std::int64_t action_dim = 0;       // Da
  std::int64_t obs_feature_dim = 0;  // Do
  std::int64_t task_dim = 0;         // of these, the last ones: an embedding of the task
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
  bool has_fan_in_init = false;     // otherwise N(0, 0.02^2), whatever the width
};

// Throws for settings that cannot work.
const TransformerConfig& Checked(const TransformerConfig& config) {
  if (config.n_emb % config.n_head != 0) {
    throw ConfigError("n_emb is {}; it must be a multiple of n_head = {}", config.n_emb,
                      config.n_head);
  }
  if (config.n_emb < 4 || config.n_emb % 2 != 0) {
    throw ConfigError("n_emb is {}; it must be even and at least 4", config.n_emb);
  }
  if (config.obs_as_cond && !config.time_as_cond) {
    throw ConfigError("obs_as_cond needs time_as_cond: set both, or neither of them");
  }
  if (!config.time_as_cond && config.n_cond_layers > 0) {
    throw ConfigError(
        "n_cond_layers is {}, but without time_as_cond there is no condition to encode; set it to "
        "0",
        config.n_cond_layers);
  }
  return config;
}

// Weights that answer at the scale of what they read, at any width (LeCun et al. 1998): N(0, 1/in).
void InitializeByFanIn(torch::nn::Module& network) {
  for (Tensor& parameter : network.parameters()) {
    if (parameter.dim() != 2) continue;  // biases, norms, positions
    const auto n_inputs = static_cast<double>(parameter.size(1));
    torch::nn::init::normal_(parameter, 0.0, 1.0 / std::sqrt(n_inputs));
  }
}

// 0 where `allowed`, else -inf.
Tensor AdditiveMask(const Tensor& allowed) {
  return torch::zeros(allowed.sizes())
      .masked_fill(allowed.logical_not(), -std::numeric_limits<float>::infinity());
}

std::vector<TransformerLayer> AddLayers(torch::nn::Module& parent, std::int64_t n,
                                        const TransformerConfig& config, bool has_memory) {
  const TransformerLayerConfig layer = {.n_emb = config.n_emb,
                                        .n_head = config.n_head,
                                        .is_pre_norm = config.is_pre_norm,
                                        .has_qkv_bias = config.has_qkv_bias,
                                        .has_memory = has_memory,
                                        .p_drop = config.p_drop_attn};
  const auto list = parent.register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  std::vector<TransformerLayer> layers;
  for (std::int64_t i = 0; i < n; ++i) {
    layers.push_back(list->register_module(std::to_string(i), TransformerLayer(layer)));
  }
  return layers;
}

// Traces the tokens [B * T, d] after layer `i` of `stack`, as [B, T, d].
void TraceLayer(const char* stack, std::size_t i, const Tensor& x, std::int64_t batch) {
  if (!IsTracingStages()) return;
  TraceStage(fmt::format("transformer: {} layer {}", stack, i + 1), x.view({batch, -1, x.size(1)}));
}

// Attention weights are traced for sampling, where gradients are off, and not for training steps.
bool IsTracingAttention() { return IsTracingStages() && !torch::GradMode::is_enabled(); }

// Traces what the layers of `stack` looked at: "attention: decoder layer 1, actions to condition".
void TraceAttention(const char* stack, const char* tokens, const std::vector<AttentionMaps>& maps) {
  for (std::size_t i = 0; i < maps.size(); ++i) {
    const std::string place = fmt::format("attention: {} layer {}, {}", stack, i + 1, tokens);
    TraceStage(fmt::format("{} to {}", place, tokens), maps[i].self);
    if (maps[i].cross.defined()) TraceStage(place + " to condition", maps[i].cross);
  }
}

// The tokens plus the last layer's pending output.
Tensor Settle(const TokenStream& stream) {
  if (!stream.branch.defined()) return stream.x;
  const Tensor sum = stream.x + stream.branch;
  return stream.bias.defined() ? sum + stream.bias : sum;
}

class DiffusionTransformer final : public torch::nn::Module, public Denoiser {
 public:
  explicit DiffusionTransformer(const TransformerConfig& config);

  Tensor Forward(const Tensor& noisy, const Tensor& times, const Tensor& cond,
                 NoiseSource* noise) override;
  ConditionedDenoiser Condition(const std::vector<double>& times, const Tensor& cond) override;
  void DropCaches() override;
  void set_gradient_checkpointing(bool is_on) override { is_checkpointing_ = is_on; }

 private:
  // Everything that is constant over the denoising steps of one call, computed once.
  struct Conditioning {
    Tensor inputs;   // [B or 1, T, d]: the action tokens without the actions
    Tensor time;     // [n_times, d]: the time tokens, if there is no memory
    Tensor kv_time;  // [n_times, n_layer * 2d]: depends only on the weights
    Tensor kv_obs;   // [B, To, n_layer * 2d]; undefined without observation tokens
    Tensor kv;       // [n_times, B, S, n_layer * 2d], if condition tokens attend to each other;
                     // otherwise undefined
  };

  bool has_memory() const { return config_.time_as_cond; }
  void MakeCondition();
  void MakeMasks();
  Tensor AddPositions(const std::string& name, std::int64_t n);
  Tensor EmbedTimes(const Tensor& times);
  Tensor InputChannels(const Tensor& cond) const;
  Tensor ObsTokens(const Tensor& obs) const;
  Tensor ConditionTokens(const Tensor& time, const Tensor& obs) const;
  void RunLayer(TransformerLayer& layer, TokenStream& stream, const Tensor& kv,
                const LayerInputs& inputs) const;
  Tensor Encode(const Tensor& tokens, DropoutMasks* dropout);
  Tensor KeyValueWeights() const;
  Conditioning ConditionOn(const std::vector<double>& times, const Tensor& cond);
  Tensor MemoryOfStep(const Conditioning& conditioning, std::int64_t step,
                      std::int64_t batch) const;
  Tensor Predict(const Tensor& sample, const Conditioning& conditioning, std::int64_t step);
  Tensor Decode(const Tensor& tokens, const std::vector<Tensor>& kvs, DropoutMasks* dropout);

  TransformerConfig config_;
  SinusoidalEmbedding time_code_;
  bool is_checkpointing_ = false;
  torch::nn::Linear time_mlp1_{nullptr};  // null unless has_time_mlp
  torch::nn::Linear time_mlp2_{nullptr};
  torch::nn::Linear input_emb_{nullptr};
  Tensor pos_emb_;                           // [1, T, d], one more without memory
  torch::nn::Linear cond_obs_emb_{nullptr};  // null unless obs_as_cond
  torch::nn::Linear task_film_{nullptr};     // null unless obs_as_cond and task_dim
  Tensor cond_pos_emb_;                      // [1, S, d]; undefined without memory
  torch::nn::Linear encoder_mlp1_{nullptr};  // null with n_cond_layers or without memory
  torch::nn::Linear encoder_mlp2_{nullptr};
  std::vector<TransformerLayer> encoder_layers_;
  std::vector<TransformerLayer> layers_;  // of the decoder, or all layers if there is no memory
  torch::nn::LayerNorm ln_f_{nullptr};
  torch::nn::Linear head_{nullptr};
  Tensor mask_;         // [T, T], -inf for excluded tokens; undefined unless causal_attn
  Tensor memory_mask_;  // [T, S], likewise

  Tensor kv_weight_;  // cache: KeyValueWeights()
  Tensor time_;       // cache: EmbedTimes(cached_times_), [n_times, d]
  Tensor kv_time_;    // cache: the keys and values of time_
  std::vector<double> cached_times_;
};

DiffusionTransformer::DiffusionTransformer(const TransformerConfig& config)
    : config_(Checked(config)), time_code_(config.n_emb) {
  const std::int64_t d = config.n_emb;
  const std::int64_t input_dim =
      config.action_dim + (config.obs_as_cond ? 0 : config.obs_feature_dim);
  if (config.has_time_mlp) {  // names as in Sequential(SinusoidalPosEmb, Linear, Mish, Linear)
    const auto mlp = register_module("time_emb", std::make_shared<torch::nn::Module>());
    time_mlp1_ = mlp->register_module("1", MakeLinear(d, 4 * d));
    time_mlp2_ = mlp->register_module("3", MakeLinear(4 * d, d));
  }
  input_emb_ = register_module("input_emb", MakeLinear(input_dim, d));
  pos_emb_ = AddPositions("pos_emb", config.horizon + (has_memory() ? 0 : 1));
  if (has_memory()) MakeCondition();

  const auto stack =
      register_module(has_memory() ? "decoder" : "encoder", std::make_shared<torch::nn::Module>());
  layers_ = AddLayers(*stack, config.n_layer, config, has_memory());
  ln_f_ = register_module("ln_f", torch::nn::LayerNorm(torch::nn::LayerNormOptions({d})));
  head_ = register_module("head", MakeLinear(d, config.action_dim));
  if (config.causal_attn) MakeMasks();
  if (config.has_fan_in_init) InitializeByFanIn(*this);
}

void DiffusionTransformer::MakeCondition() {
  const std::int64_t d = config_.n_emb;
  cond_pos_emb_ = AddPositions("cond_pos_emb", 1 + (config_.obs_as_cond ? config_.n_obs_steps : 0));
  if (config_.obs_as_cond) {
    cond_obs_emb_ = register_module("cond_obs_emb", MakeLinear(config_.obs_feature_dim, d));
    if (config_.task_dim > 0) {
      task_film_ = register_module("task_film", MakeLinear(config_.task_dim, 2 * d));
    }
  }
  const auto encoder = register_module("encoder", std::make_shared<torch::nn::Module>());
  if (config_.n_cond_layers > 0) {
    encoder_layers_ = AddLayers(*encoder, config_.n_cond_layers, config_, /*has_memory=*/false);
    return;
  }
  encoder_mlp1_ = encoder->register_module("0", MakeLinear(d, 4 * d));
  encoder_mlp2_ = encoder->register_module("2", MakeLinear(4 * d, d));
}

// Upstream's masks: a token does not see later tokens; action t sees the timestep and the
// observations up to its own step.
void DiffusionTransformer::MakeMasks() {
  const std::int64_t n = pos_emb_.size(1);
  mask_ = AdditiveMask(torch::ones({n, n}, torch::kBool).tril());
  if (!config_.obs_as_cond) return;
  const Tensor t = torch::arange(n).unsqueeze(1);
  const Tensor s = torch::arange(cond_pos_emb_.size(1)).unsqueeze(0);
  memory_mask_ = AdditiveMask(t >= s - 1);
}

Tensor DiffusionTransformer::AddPositions(const std::string& name, std::int64_t n) {
  if (!config_.is_position_learned) {
    const Tensor code = time_code_(torch::arange(n, torch::kInt64));
    return register_buffer(name, code.unsqueeze(0));
  }
  return register_parameter(name, torch::randn({1, n, config_.n_emb}) * kPositionStd);
}

// [n] -> [n, d].
Tensor DiffusionTransformer::EmbedTimes(const Tensor& times) {
  Tensor code = time_code_(times);
  if (time_mlp1_.is_empty()) return code;
  return ApplyLinear(time_mlp2_,
                     TokenMish(ApplyLinear(time_mlp1_, code.to(time_mlp1_->weight.dtype()))));
}

// The observation channels of the action tokens, [B, T, Do]: the observed steps, then zeros.
// They are inputs only. With inpainting (DenoiserChannels) there are none: the observations are
// part of the sample.
Tensor DiffusionTransformer::InputChannels(const Tensor& cond) const {
  return torch::constant_pad_nd(cond, {0, 0, 0, config_.horizon - cond.size(1)});
}

// [B, To, Do] -> [B, To, d]. An embedding of the task scales and shifts the tokens (FiLM, Perez et
// al. 2018): equal numbers mean other things in another task.
Tensor DiffusionTransformer::ObsTokens(const Tensor& obs) const {
  const Tensor tokens = ApplyLinear(cond_obs_emb_, obs);
  if (task_film_.is_empty()) return tokens;
  const Tensor task = obs.narrow(2, config_.obs_feature_dim - config_.task_dim, config_.task_dim);
  const Tensor film = ApplyLinear(task_film_, task);  // [B, To, 2d]
  return tokens * (film.narrow(2, 0, config_.n_emb) + 1.0) +
         film.narrow(2, config_.n_emb, config_.n_emb);
}

// time [B, 1, d] and obs [B, To, Do] or undefined -> [B, S, d] with positions.
Tensor DiffusionTransformer::ConditionTokens(const Tensor& time, const Tensor& obs) const {
  if (!obs.defined()) return time + cond_pos_emb_;
  return torch::cat({time, ObsTokens(obs)}, /*dim=*/1) + cond_pos_emb_;
}

void DiffusionTransformer::RunLayer(TransformerLayer& layer, TokenStream& stream, const Tensor& kv,
                                    const LayerInputs& inputs) const {
  if (is_checkpointing_ && inputs.maps == nullptr) {
    layer->ForwardCheckpointed(stream, kv, inputs);
  } else {
    layer->forward(stream, kv, inputs);
  }
}

// Condition tokens [B, S, d] -> memory [B, S, d].
Tensor DiffusionTransformer::Encode(const Tensor& tokens, DropoutMasks* dropout) {
  if (encoder_layers_.empty())
    return ApplyLinear(encoder_mlp2_, TokenMish(ApplyLinear(encoder_mlp1_, tokens)));
  TokenStream stream = {.x = tokens.flatten(0, 1)};
  std::vector<AttentionMaps> traced;
  const LayerInputs inputs = {.batch = tokens.size(0),
                              .dropout = dropout,
                              .maps = IsTracingAttention() ? &traced : nullptr};
  for (std::size_t i = 0; i < encoder_layers_.size(); ++i) {
    RunLayer(encoder_layers_[i], stream, /*kv=*/{}, inputs);
    TraceLayer("condition encoder", i, stream.x, inputs.batch);
  }
  TraceAttention("condition encoder", "condition", traced);
  return Settle(stream).view(tokens.sizes());
}

// Action tokens [B, T', d] -> prediction [B, T', Da]; kvs: one [B, S, 2d] per layer, or none.
Tensor DiffusionTransformer::Decode(const Tensor& tokens, const std::vector<Tensor>& kvs,
                                    DropoutMasks* dropout) {
  if (mask_.defined()) mask_ = mask_.to(tokens.device());
  if (memory_mask_.defined()) memory_mask_ = memory_mask_.to(tokens.device());
  TokenStream stream = {.x = tokens.flatten(0, 1)};
  std::vector<AttentionMaps> traced;
  const LayerInputs inputs = {.batch = tokens.size(0),
                              .mask = mask_,
                              .memory_mask = memory_mask_,
                              .dropout = dropout,
                              .maps = IsTracingAttention() ? &traced : nullptr};
  const char* stack = has_memory() ? "decoder" : "encoder";
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    RunLayer(layers_[i], stream, kvs.empty() ? Tensor() : kvs[i], inputs);
    TraceLayer(stack, i, stream.x, inputs.batch);
  }
  TraceAttention(stack, "actions", traced);
  const Tensor normed = AddNorm(stream.x, stream.branch, stream.bias, ln_f_).normed;
  return ApplyLinear(head_, normed).view({tokens.size(0), tokens.size(1), config_.action_dim});
}

Tensor DiffusionTransformer::Forward(const Tensor& sample, const Tensor& times, const Tensor& cond,
                                     NoiseSource* noise) {
  std::optional<DropoutMasks> masks;
  if (noise != nullptr && (config_.p_drop_emb > 0.0 || config_.p_drop_attn > 0.0)) {
    masks.emplace(*noise);
  }
  DropoutMasks* const dropout = masks ? &*masks : nullptr;
  const Dropout embedding_dropout = {dropout, config_.p_drop_emb};
  const Tensor time = EmbedTimes(times).unsqueeze(1);  // [B, 1, d]
  const Tensor input =
      config_.obs_as_cond ? sample : torch::cat({sample, InputChannels(cond)}, /*dim=*/-1);
  TraceStage("transformer: timestep token", time);
  Tensor tokens = ApplyLinear(input_emb_, input);  // [B, T, d]
  TraceStage("transformer: action tokens", tokens);
  if (!has_memory()) {
    tokens = embedding_dropout.Apply(torch::cat({time, tokens}, /*dim=*/1) + pos_emb_);
    TraceStage("transformer: timestep and action tokens", tokens);
    return Decode(tokens, /*kvs=*/{}, dropout).narrow(1, 1, config_.horizon);
  }

  const Tensor condition =
      embedding_dropout.Apply(ConditionTokens(time, config_.obs_as_cond ? cond : Tensor()));
  TraceStage("transformer: condition tokens", condition);
  const Tensor memory = Encode(condition, dropout);
  TraceStage("transformer: memory", memory);
  std::vector<Tensor> kvs;
  for (TransformerLayer& layer : layers_) {
    kvs.push_back(RowProduct(memory, layer->KeyValueWeight()));
  }
  return Decode(embedding_dropout.Apply(tokens + pos_emb_), kvs, dropout);
}

Tensor DiffusionTransformer::KeyValueWeights() const {
  std::vector<Tensor> weights;
  for (const TransformerLayer& layer : layers_) weights.push_back(layer->KeyValueWeight().detach());
  return torch::cat(weights);  // [n_layer * 2d, d]
}

ConditionedDenoiser DiffusionTransformer::Condition(const std::vector<double>& times,
                                                    const Tensor& cond) {
  return [this, conditioning = ConditionOn(times, cond)](const Tensor& naction, std::int64_t step) {
    return Predict(naction, conditioning, step);
  };
}

DiffusionTransformer::Conditioning DiffusionTransformer::ConditionOn(
    const std::vector<double>& times, const Tensor& cond) {
  const std::int64_t batch = cond.size(0);
  const auto n = static_cast<std::int64_t>(times.size());
  const std::int64_t d = config_.n_emb;
  Conditioning result;

  // the embedding of a token is linear: the part that does not depend on the actions is computed
  // now
  result.inputs = pos_emb_.narrow(1, has_memory() ? 0 : 1, config_.horizon) + input_emb_->bias;
  if (!config_.obs_as_cond && config_.obs_feature_dim > 0) {
    const Tensor weight = input_emb_->weight.narrow(1, config_.action_dim, config_.obs_feature_dim);
    result.inputs = result.inputs + RowProduct(InputChannels(cond), weight);
  }
  if (!time_.defined() || cached_times_ != times) {
    time_ = EmbedTimes(torch::tensor(times, cond.options()));
    kv_time_.reset();
    cached_times_ = times;
  }
  if (!has_memory()) {
    result.time = time_ + pos_emb_.select(1, 0);
    return result;
  }
  if (config_.obs_as_cond && IsTracingAttention()) {
    TraceStage("transformer: observation embedding", cond_obs_emb_->weight);
  }
  if (!kv_weight_.defined()) kv_weight_ = KeyValueWeights();

  if (!encoder_layers_.empty()) {
    // [n * B, S, d]: every time with every row
    const Tensor of_rows = time_.view({n, 1, 1, d}).expand({n, batch, 1, d}).flatten(0, 1);
    const Tensor obs = config_.obs_as_cond ? cond.repeat({n, 1, 1}) : Tensor();
    const Tensor memory = Encode(ConditionTokens(of_rows, obs), /*dropout=*/nullptr);
    result.kv = RowProduct(memory.flatten(0, 1), kv_weight_)
                    .view({n, batch, memory.size(1), kv_weight_.size(0)});
    return result;
  }

  // each condition token is encoded by itself
  if (!kv_time_.defined()) {
    const Tensor memory = Encode(time_.unsqueeze(1) + cond_pos_emb_.narrow(1, 0, 1), nullptr);
    kv_time_ = RowProduct(memory.flatten(0, 1), kv_weight_);
  }
  result.kv_time = kv_time_;
  if (config_.obs_as_cond) {
    const Tensor tokens =
        ObsTokens(cond) + cond_pos_emb_.narrow(1, 1, config_.n_obs_steps);  // [B, To, d]
    const Tensor memory = Encode(tokens, /*dropout=*/nullptr);
    result.kv_obs = RowProduct(memory.flatten(0, 1), kv_weight_)
                        .view({batch, config_.n_obs_steps, kv_weight_.size(0)});
  }
  return result;
}

// Keys and values of all layers, [B, S, n_layer * 2d].
Tensor DiffusionTransformer::MemoryOfStep(const Conditioning& conditioning, std::int64_t step,
                                          std::int64_t batch) const {
  if (conditioning.kv.defined()) return conditioning.kv.select(0, step);
  const Tensor time = conditioning.kv_time.select(0, step).expand({batch, 1, -1});
  return conditioning.kv_obs.defined() ? torch::cat({time, conditioning.kv_obs}, /*dim=*/1) : time;
}

Tensor DiffusionTransformer::Predict(const Tensor& sample, const Conditioning& conditioning,
                                     std::int64_t step) {
  const std::int64_t batch = sample.size(0);
  const std::int64_t d = config_.n_emb;
  const Tensor weight = input_emb_->weight.narrow(1, 0, config_.action_dim);
  Tensor tokens = RowProduct(sample, weight) + conditioning.inputs;  // [B, T, d]
  if (!has_memory()) {
    const Tensor time = conditioning.time.select(0, step).expand({batch, 1, d});
    tokens = torch::cat({time, tokens}, /*dim=*/1);
    return Decode(tokens, /*kvs=*/{}, /*dropout=*/nullptr).narrow(1, 1, config_.horizon);
  }
  const Tensor memory = MemoryOfStep(conditioning, step, batch);
  std::vector<Tensor> kvs;
  for (std::int64_t i = 0; i < config_.n_layer; ++i) {
    kvs.push_back(memory.narrow(2, i * 2 * d, 2 * d));
  }
  return Decode(tokens, kvs, /*dropout=*/nullptr);
}

void DiffusionTransformer::DropCaches() {
  kv_weight_.reset();
  time_.reset();
  kv_time_.reset();
}

TransformerConfig ReadTransformerConfig(const Config& params, const PolicySpec& spec,
                                        const DenoiserChannels& channels) {
  TransformerConfig c = {.action_dim = channels.sample,
                         .obs_feature_dim = channels.cond,
                         .task_dim = channels.task,
                         .horizon = spec.horizons.horizon,
                         .n_obs_steps = spec.horizons.n_obs_steps};
  const ConfigKeys keys(params);
  keys("n_layer", &c.n_layer, 1, 128, "transformer layers");
  keys("n_head", &c.n_head, 1, 256, "attention heads; must divide n_emb");
  keys("n_emb", &c.n_emb, 4, 16384, "features of a token");
  keys("n_cond_layers", &c.n_cond_layers, 0, 128,
       "transformer layers over the condition; 0: an MLP per token");
  keys("p_drop_emb", &c.p_drop_emb, 0.0, 0.95, "dropout of the embeddings");
  keys("p_drop_attn", &c.p_drop_attn, 0.0, 0.95, "dropout of everything within the layers");
  keys("causal_attn", &c.causal_attn, "no token attends to later ones");
  keys("time_as_cond", &c.time_as_cond,
       "the denoising step is part of the condition; false: it is the first token, and there is no "
       "cross-attention");
  keys("obs_as_cond", &c.obs_as_cond,
       "observations are part of the condition; false: they are further input channels; unused "
       "with inpainting");
  c.obs_as_cond = c.obs_as_cond && !channels.inpaints_obs;
  keys.Choice("time_embedding", &c.has_time_mlp, {{"sinusoidal", false}, {"mlp", true}},
              "token of the denoising step: its sines and cosines, or an MLP of them");
  keys.Choice("norm", &c.is_pre_norm, {{"pre", true}, {"post", false}},
              "layer norm before each block, as in TransformerForDiffusion, or after it, as in "
              "Vaswani et al. 2017");
  keys("qkv_bias", &c.has_qkv_bias, "queries, keys and values have a bias");
  keys.Choice("position", &c.is_position_learned, {{"learned", true}, {"sinusoidal", false}},
              "embedding of the place in the sequence");
  keys.Choice("weight_init", &c.has_fan_in_init, {{"normal", false}, {"fan_in", true}},
              "initial weights: a standard deviation of 0.02, as in TransformerForDiffusion, or of "
              "1/sqrt(inputs), with which narrow networks learn small differences faster");
  return c;
}

}  // namespace

std::shared_ptr<Denoiser> MakeTransformerDenoiser(const Config& params, const PolicySpec& spec,
                                                  const DenoiserChannels& channels,
                                                  torch::nn::Module& parent) {
  return parent.register_module("transformer", std::make_shared<DiffusionTransformer>(
                                                   ReadTransformerConfig(params, spec, channels)));
}

}  // namespace dp_bench::policy
