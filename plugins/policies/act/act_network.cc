// See act_network.h.
#include "act_network.h"

#include <fmt/format.h>
#include <torch/nn/init.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <string>

#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/stage_trace.h"

namespace dp_bench::act {
namespace {

using policy::DropoutMasks;
using policy::LayerInputs;
using policy::TransformerLayerConfig;
using torch::Tensor;

// Positions [n] -> [n, dim]: sines in even columns, cosines in odd ones, of the position divided by
// 10000^(column / dim) (Vaswani et al. 2017, Sec. 3.5). Computed in double and rounded once.
Tensor SinesAndCosines(const std::vector<double>& positions, std::int64_t dim) {
  std::vector<double> values;
  for (const double position : positions) {
    for (std::int64_t even = 0; even < dim; even += 2) {
      const double angle =
          position / std::pow(10000.0, static_cast<double>(even) / static_cast<double>(dim));
      values.insert(values.end(), {std::sin(angle), std::cos(angle)});
    }
  }
  return torch::tensor(values, torch::kFloat64)
      .to(torch::kFloat32)
      .view({static_cast<std::int64_t>(positions.size()), dim});
}

// 1 to n, scaled to end at 2 pi.
std::vector<double> PlacesOnCircle(std::int64_t n) {
  constexpr double kEps = 1e-6;  // as in the authors' code
  std::vector<double> places;
  for (std::int64_t i = 1; i <= n; ++i) {
    places.push_back(static_cast<double>(i) / (static_cast<double>(n) + kEps) * 2.0 *
                     std::numbers::pi);
  }
  return places;
}

}  // namespace

TransformerStackImpl::TransformerStackImpl(std::int64_t n_layers,
                                           const TransformerLayerConfig& config, bool has_norm) {
  const auto list = register_module("layers", std::make_shared<torch::nn::Module>("layers"));
  for (std::int64_t i = 0; i < n_layers; ++i) {
    layers_.push_back(list->register_module(std::to_string(i), policy::TransformerLayer(config)));
  }
  if (has_norm) {
    norm_ =
        register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({config.n_emb})));
  }
  for (Tensor& parameter : parameters()) {
    if (parameter.dim() > 1) torch::nn::init::xavier_uniform_(parameter);
  }
}

Tensor TransformerStackImpl::forward(const char* name, const Tensor& tokens, const Memory& memory,
                                     LayerInputs inputs) {
  inputs.batch = tokens.size(0);
  policy::TokenStream stream = {.x = tokens.flatten(0, 1)};
  const auto by_row = [&](const Tensor& x) {
    return x.view({inputs.batch, tokens.size(1), tokens.size(2)});
  };
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Tensor kv = memory.tokens.defined()
                          ? layers_[i]->ProjectMemory(memory.tokens, memory.position)
                          : Tensor();
    layers_[i]->forward(stream, kv, inputs);
    if (kv.defined()) inputs.batch = kv.size(0);
    if (!IsTracingStages()) continue;
    Tensor settled = stream.x;
    if (stream.branch.defined()) settled = settled + stream.branch;
    if (stream.bias.defined()) settled = settled + stream.bias;
    TraceStage(fmt::format("{} layer {}", name, i + 1), by_row(settled));
  }
  if (norm_.is_empty()) return by_row(stream.x);
  return by_row(policy::AddNorm(stream.x, stream.branch, stream.bias, norm_).normed);
}

ActNetworkImpl::ActNetworkImpl(const ActConfig& config) : config_(config) {
  const std::int64_t d = config.dim_model;
  TransformerLayerConfig layer = {.n_emb = d,
                                  .n_head = config.n_heads,
                                  .is_pre_norm = config.pre_norm,
                                  .has_memory = false,
                                  .p_drop = config.dropout,
                                  .n_feed_forward = config.dim_feedforward,
                                  .has_relu = config.has_relu};
  if (config.use_vae) AddVaeEncoder(layer);
  if (config.has_cameras) {
    backbone_ = register_module("backbone", policy::Resnet(config.backbone));
    image_proj_ = register_module(
        "encoder_img_feat_input_proj",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(backbone_->out_channels(), d, 1)));
  }
  encoder_ =
      register_module("encoder", TransformerStack(config.n_encoder_layers, layer, config.pre_norm));
  layer.has_memory = true;
  decoder_ = register_module("decoder", TransformerStack(config.n_decoder_layers, layer, true));

  std::int64_t n_tokens = 1;  // the latent, and the numbers
  latent_proj_ =
      register_module("encoder_latent_input_proj", torch::nn::Linear(config.latent_dim, d));
  if (config.state_dim > 0) {
    state_proj_ =
        register_module("encoder_robot_state_input_proj", torch::nn::Linear(config.state_dim, d));
    ++n_tokens;
  }
  if (config.env_state_dim > 0) {
    env_state_proj_ =
        register_module("encoder_env_state_input_proj", torch::nn::Linear(config.env_state_dim, d));
    ++n_tokens;
  }
  if (config.task_dim > 0) {
    task_proj_ = register_module(
        "encoder_task_input_proj",
        torch::nn::Linear(torch::nn::LinearOptions(config.task_dim, d).bias(false)));
    // as torch.nn.Embedding, which it is for one-hot vectors
    torch::nn::init::normal_(task_proj_->weight);
    ++n_tokens;
  }
  token_position_ =
      register_module("encoder_1d_feature_pos_embed", torch::nn::Embedding(n_tokens, d));
  action_position_ = register_module("decoder_pos_embed", torch::nn::Embedding(config.horizon, d));
  action_head_ = register_module("action_head", torch::nn::Linear(d, config.action_dim));
}

void ActNetworkImpl::AddVaeEncoder(const TransformerLayerConfig& layer) {
  const std::int64_t d = config_.dim_model;
  vae_encoder_ = register_module(
      "vae_encoder", TransformerStack(config_.n_vae_encoder_layers, layer, config_.pre_norm));
  vae_cls_embed_ = register_module("vae_encoder_cls_embed", torch::nn::Embedding(1, d));
  if (config_.state_dim > 0) {
    vae_state_proj_ = register_module("vae_encoder_robot_state_input_proj",
                                      torch::nn::Linear(config_.state_dim, d));
  }
  vae_action_proj_ =
      register_module("vae_encoder_action_input_proj", torch::nn::Linear(config_.action_dim, d));
  vae_latent_proj_ = register_module("vae_encoder_latent_output_proj",
                                     torch::nn::Linear(d, 2 * config_.latent_dim));
  std::vector<double> places;
  for (std::int64_t i = 0; i < config_.horizon + (config_.state_dim > 0 ? 2 : 1); ++i) {
    places.push_back(static_cast<double>(i));
  }
  vae_position_ = register_buffer("vae_encoder_pos_enc", SinesAndCosines(places, d).unsqueeze(0));
}

// Tokens: a learned one whose result holds the distribution, the state, the actions.
LatentDistribution ActNetworkImpl::EncodeActions(const Tensor& state, const Tensor& naction,
                                                 const Tensor& is_pad, DropoutMasks* dropout) {
  const std::int64_t batch = naction.size(0);
  std::vector<Tensor> tokens = {vae_cls_embed_->weight.expand({batch, 1, -1})};
  if (state.defined()) tokens.push_back(policy::ApplyLinear(vae_state_proj_, state).unsqueeze(1));
  const auto n_before = static_cast<std::int64_t>(tokens.size());
  tokens.push_back(policy::ApplyLinear(vae_action_proj_, naction));

  // padded steps are not attended to
  const Tensor is_excluded = torch::constant_pad_nd(is_pad, {n_before, 0}, false);
  const std::int64_t n = is_excluded.size(1);
  const Tensor mask =
      torch::zeros({batch, 1, n}, naction.options())
          .masked_fill(is_excluded.unsqueeze(1), -std::numeric_limits<float>::infinity())
          .expand({batch, n, n});
  const Tensor encoded =
      vae_encoder_("vae encoder", torch::cat(tokens, /*dim=*/1), TransformerStackImpl::Memory{},
                   LayerInputs{.mask = mask, .position = vae_position_[0], .dropout = dropout});
  const Tensor parameters =
      policy::ApplyLinear(vae_latent_proj_, encoded.select(1, 0)).to(torch::kFloat32);
  TraceStage("latent distribution", parameters);
  const std::vector<Tensor> halves = parameters.chunk(2, /*dim=*/1);
  return {.mean = halves[0], .log_var = halves[1]};
}

// [B, n, C, H, W] -> [B, n * h * w, d].
Tensor ActNetworkImpl::CameraTokens(const Tensor& images) {
  const Tensor map = backbone_(images.flatten(0, 1));
  TraceStage("feature map", map);
  PlaceMap(map.size(2), map.size(3));
  return policy::ApplyConv2d(image_proj_, map)  // [B * n, d, h, w]
      .flatten(2)
      .transpose(1, 2)
      .reshape({images.size(0), -1, config_.dim_model});
}

// Sets map_position_: the row in the first half of the features, the column in the second.
void ActNetworkImpl::PlaceMap(std::int64_t height, std::int64_t width) {
  const bool is_placed = map_position_.defined() && map_width_ == width;
  if (is_placed && map_position_.size(0) == height * width) return;
  const std::int64_t half = config_.dim_model / 2;
  const Tensor rows = SinesAndCosines(PlacesOnCircle(height), half).unsqueeze(1);
  const Tensor columns = SinesAndCosines(PlacesOnCircle(width), half).unsqueeze(0);
  map_position_ =
      torch::cat({rows.expand({height, width, half}), columns.expand({height, width, half})},
                 /*dim=*/2)
          .flatten(0, 1);
  map_width_ = width;
}

Tensor ActNetworkImpl::forward(const ActObs& obs, const Tensor& latent, DropoutMasks* dropout) {
  std::vector<Tensor> numbers = {policy::ApplyLinear(latent_proj_, latent)};
  if (obs.state.defined()) numbers.push_back(policy::ApplyLinear(state_proj_, obs.state));
  if (obs.env_state.defined()) {
    numbers.push_back(policy::ApplyLinear(env_state_proj_, obs.env_state));
  }
  if (obs.task.defined()) numbers.push_back(policy::ApplyLinear(task_proj_, obs.task));
  Tensor tokens = torch::stack(numbers, /*dim=*/1);
  Tensor position = token_position_->weight;
  if (obs.images.defined()) {
    tokens = torch::cat({tokens, CameraTokens(obs.images)}, /*dim=*/1);
    map_position_ = map_position_.to(position.device());
    position = torch::cat({position, map_position_.repeat({obs.images.size(1), 1})});
  }
  TraceStage("observation tokens", tokens);

  const Tensor encoded = encoder_("encoder", tokens, TransformerStackImpl::Memory{},
                                  LayerInputs{.position = position, .dropout = dropout});
  TraceStage("encoded observation", encoded);
  // without dropout, the first layer's attention between the queries is the same for all rows
  const std::int64_t n_rows = dropout == nullptr ? 1 : latent.size(0);
  const Tensor queries =
      torch::zeros({n_rows, config_.horizon, config_.dim_model}, latent.options());
  const Tensor decoded = decoder_(
      "decoder", queries, TransformerStackImpl::Memory{.tokens = encoded, .position = position},
      LayerInputs{.position = action_position_->weight, .dropout = dropout});
  TraceStage("decoded actions", decoded);
  return policy::ApplyLinear(action_head_, decoded).to(torch::kFloat32);
}

}  // namespace dp_bench::act
