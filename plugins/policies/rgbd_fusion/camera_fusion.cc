// See camera_fusion.h. LibTorch's modules are created only for their parameters and initialization.
#include "camera_fusion.h"

#include <string>

#include "dp_bench/policy/kernels/row_product.h"
#include "dp_bench/policy/kernels/token_ops.h"
#include "dp_bench/stage_trace.h"

namespace dp_bench::rgbd_fusion {
namespace {

using torch::Tensor;

// query, memory [N, tokens, d] -> [N, tokens, d]. `tokens`: "colour to depth", the name under which
// the weights are traced. Training steps, which have gradients, do not trace them.
Tensor Attend(const char* tokens, torch::nn::MultiheadAttention& attention, const Tensor& query,
              const Tensor& memory) {
  const std::int64_t d = query.size(2);
  const std::int64_t n_head = attention->options.num_heads();
  const Tensor& weight = attention->in_proj_weight;
  const policy::AttentionInputs inputs = {
      .q = policy::RowProduct(query, weight.narrow(0, 0, d)),
      .kv = policy::RowProduct(memory, weight.narrow(0, d, 2 * d)),
      .bias = attention->in_proj_bias};
  if (IsTracingStages() && !torch::GradMode::is_enabled()) {
    TraceStage(std::string("attention: fusion, ") + tokens,
               policy::AttentionWeights(inputs, n_head));
  }
  const Tensor heads = policy::Attention(inputs, n_head);
  return policy::RowProduct(heads, attention->out_proj->weight) + attention->out_proj->bias;
}

}  // namespace

CameraFusionImpl::CameraFusionImpl(const FusionConfig& config)
    : config_(config), rgb_(AddModality("rgb")) {
  if (config_.has_depth) depth_ = AddModality("depth");
}

CameraFusionImpl::Modality CameraFusionImpl::AddModality(const std::string& name) {
  const auto attention = [&](const std::string& suffix) {
    return register_module(name + suffix,
                           torch::nn::MultiheadAttention(config_.token_dim, config_.n_head));
  };
  Modality modality;
  modality.self = attention("_self_attention");
  if (config_.has_depth) modality.cross = attention("_cross_attention");
  if (config_.kind == FusionKind::kSeed) return modality;

  const auto norm = [&](const std::string& suffix) {
    return register_module(name + suffix,
                           torch::nn::LayerNorm(torch::nn::LayerNormOptions({config_.token_dim})));
  };
  constexpr double kEmbeddingStd = 0.02;
  modality.camera_embedding =
      register_parameter(name + "_camera_embedding",
                         torch::randn({config_.n_cameras, config_.token_dim}) * kEmbeddingStd);
  modality.norm_self = norm("_norm_self");
  if (config_.has_depth) {
    modality.norm_cross = norm("_norm_cross");
    modality.norm_memory = norm("_norm_memory");
  }
  modality.norm_out = norm("_norm_out");
  return modality;
}

std::int64_t CameraFusionImpl::feature_dim() const {
  return config_.n_cameras * config_.token_dim * (config_.has_depth ? 2 : 1);
}

Tensor CameraFusionImpl::forward(const Tensor& rgb, const Tensor& depth) {
  const Tensor rgb_tokens = AttendCameras("colour to colour", rgb_, rgb);
  TraceStage("fusion: colour, self-attention", rgb_tokens);
  if (!config_.has_depth) return Leave(rgb_, rgb_tokens);

  const Tensor depth_tokens = AttendCameras("depth to depth", depth_, depth);
  TraceStage("fusion: depth, self-attention", depth_tokens);
  const Tensor rgb_fused = AttendOther("colour to depth", rgb_, rgb_tokens, depth_tokens);
  TraceStage("fusion: colour queries depth", rgb_fused);
  const Tensor depth_fused = AttendOther("depth to colour", depth_, depth_tokens, rgb_tokens);
  TraceStage("fusion: depth queries colour", depth_fused);
  return torch::cat({Leave(rgb_, rgb_fused), Leave(depth_, depth_fused)}, /*dim=*/-1);
}

Tensor CameraFusionImpl::AttendCameras(const char* name, Modality& modality,
                                       const Tensor& tokens) const {
  if (config_.kind == FusionKind::kSeed) return Attend(name, modality.self, tokens, tokens);
  const Tensor named = tokens + modality.camera_embedding;
  const Tensor normed = modality.norm_self(named);
  return named + Attend(name, modality.self, normed, normed);
}

Tensor CameraFusionImpl::AttendOther(const char* name, Modality& modality, const Tensor& tokens,
                                     const Tensor& other) const {
  if (config_.kind == FusionKind::kSeed) return Attend(name, modality.cross, tokens, other);
  return tokens +
         Attend(name, modality.cross, modality.norm_cross(tokens), modality.norm_memory(other));
}

// [N, n_cameras, d] -> [N, n_cameras * d].
Tensor CameraFusionImpl::Leave(Modality& modality, const Tensor& tokens) const {
  if (config_.kind == FusionKind::kSeed) return tokens.flatten(1);
  return modality.norm_out(tokens).flatten(1);
}

}  // namespace dp_bench::rgbd_fusion
