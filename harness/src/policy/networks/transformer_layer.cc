// See transformer_layer.h. Matrix products run without bias. The following pass over the product
// adds it at no extra cost.
#include "dp_bench/policy/networks/transformer_layer.h"

#include "core/errors.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "policy/kernels/feed_forward.h"
#include "policy/kernels/gradient_checkpoint.h"
#include "policy/kernels/projected_attention.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

constexpr double kInitStd = 0.02;  // of all weights, as in TransformerForDiffusion

torch::nn::LayerNorm MakeNorm(std::int64_t dim) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({dim}));
}

// tokens [B * T, d] with their positions [T, d], if there are any.
Tensor WithPositions(const Tensor& tokens, const Tensor& position) {
  if (!position.defined()) return tokens;
  return (tokens.view({-1, position.size(0), position.size(1)}) + position).view(tokens.sizes());
}

// The same tokens [T, d] for each row of the batch.
void Repeat(TokenStream& stream, std::int64_t batch) {
  stream.x = stream.x.repeat({batch, 1});
  if (stream.branch.defined()) stream.branch = stream.branch.repeat({batch, 1});
}

// Dropout works on rows of the batch, [B, ...].
Tensor DropRows(const Dropout& dropout, const Tensor& x, std::int64_t batch) {
  return dropout.Apply(x.view({batch, -1})).view(x.sizes());
}

}  // namespace

torch::nn::Linear MakeLinear(std::int64_t in, std::int64_t out) {
  torch::nn::Linear linear(in, out);
  torch::nn::init::normal_(linear->weight, 0.0, kInitStd);
  torch::nn::init::zeros_(linear->bias);
  return linear;
}

MultiheadAttentionImpl::MultiheadAttentionImpl(const TransformerLayerConfig& config)
    : n_head_(config.n_head) {
  const std::int64_t d = config.n_emb;
  in_proj_weight_ = register_parameter("in_proj_weight", torch::empty({3 * d, d}));
  torch::nn::init::normal_(in_proj_weight_, 0.0, kInitStd);
  if (config.has_qkv_bias) {
    in_proj_bias_ = register_parameter("in_proj_bias", torch::zeros({3 * d}));
  }
  out_proj_ = register_module("out_proj", MakeLinear(d, d));
}

Tensor MultiheadAttentionImpl::forward(const Tensor& tokens, const AttentionContext& context,
                                       Tensor* map) {
  const std::int64_t d = in_proj_weight_.size(1);
  const bool has_memory = context.kv.defined();
  const Tensor w_in = has_memory ? in_proj_weight_.narrow(0, 0, d) : in_proj_weight_;
  AttentionInputs inputs = {
      .kv = context.kv, .bias = in_proj_bias_, .mask = context.mask, .dropout = context.dropout};
  if (map == nullptr && !context.position.defined()) {
    return ProjectedAttention(tokens, context.batch,
                              {.w_in = w_in, .w_out = out_proj_->weight, .n_head = n_head_},
                              inputs);
  }
  const Tensor placed = WithPositions(tokens, context.position);
  Tensor q = RowProduct(placed, has_memory ? w_in : in_proj_weight_.narrow(0, 0, 2 * d));
  if (!has_memory) {
    q = torch::cat({q, RowProduct(tokens, in_proj_weight_.narrow(0, 2 * d, d))}, /*dim=*/1);
  }
  inputs.q = q.view({context.batch, -1, q.size(1)});
  if (map != nullptr) *map = AttentionWeights(inputs, n_head_);
  return RowProduct(Attention(inputs, n_head_).flatten(0, 1), out_proj_->weight);
}

Tensor MultiheadAttentionImpl::KeyValueWeight() const {
  const std::int64_t d = in_proj_weight_.size(1);
  return in_proj_weight_.narrow(0, d, 2 * d);
}

Tensor MultiheadAttentionImpl::ProjectMemory(const Tensor& memory, const Tensor& position) const {
  const std::int64_t d = in_proj_weight_.size(1);
  return torch::cat({RowProduct(memory + position, in_proj_weight_.narrow(0, d, d)),
                     RowProduct(memory, in_proj_weight_.narrow(0, 2 * d, d))},
                    /*dim=*/2);
}

TransformerLayerImpl::TransformerLayerImpl(const TransformerLayerConfig& config) : config_(config) {
  const std::int64_t d = config.n_emb;
  self_attn_ = register_module("self_attn", MultiheadAttention(config));
  if (config.has_memory) {
    multihead_attn_ = register_module("multihead_attn", MultiheadAttention(config));
  }
  const std::int64_t n_units = config.n_feed_forward > 0 ? config.n_feed_forward : 4 * d;
  linear1_ = register_module("linear1", MakeLinear(d, n_units));
  linear2_ = register_module("linear2", MakeLinear(n_units, d));
  norm_self_ = register_module("norm1", MakeNorm(d));
  if (config.has_memory) norm_cross_ = register_module("norm2", MakeNorm(d));
  norm_feed_forward_ = register_module(config.has_memory ? "norm3" : "norm2", MakeNorm(d));
}

void TransformerLayerImpl::forward(TokenStream& stream, const Tensor& kv,
                                   const LayerInputs& inputs) {
  AttentionMaps maps;
  AttentionContext context = {.batch = inputs.batch,
                              .mask = inputs.mask,
                              .position = inputs.position,
                              .dropout = DropoutOf(inputs)};
  const bool has_maps = inputs.maps != nullptr;
  Tensor tokens = Enter(stream, norm_self_);
  Leave(stream, norm_self_, self_attn_(tokens, context, has_maps ? &maps.self : nullptr),
        self_attn_->output_bias(), inputs);

  if (!multihead_attn_.is_empty()) {
    if (inputs.batch < kv.size(0)) Repeat(stream, kv.size(0));
    context.batch = kv.size(0);
    context.kv = kv;
    context.mask = inputs.memory_mask;
    tokens = Enter(stream, norm_cross_);
    Leave(stream, norm_cross_, multihead_attn_(tokens, context, has_maps ? &maps.cross : nullptr),
          multihead_attn_->output_bias(), inputs);
  }

  tokens = Enter(stream, norm_feed_forward_);
  const FeedForwardLayers layers = {
      .linear1 = linear1_,
      .linear2 = linear2_,
      .activation = config_.has_relu ? Activation::kRelu : Activation::kGelu,
      .dropout = context.dropout,
      .batch = inputs.batch};
  Leave(stream, norm_feed_forward_, FeedForward(tokens, layers), linear2_->bias, inputs);
  if (has_maps) inputs.maps->push_back(maps);
}

void TransformerLayerImpl::ForwardCheckpointed(TokenStream& stream, const Tensor& kv,
                                               const LayerInputs& inputs) {
  DPB_ASSERT(!inputs.position.defined());  // it would get no gradient
  using Tensors = CheckpointedBlock::Tensors;
  Tensors defined = {stream.x};
  for (const Tensor& tensor : {stream.branch, stream.bias, kv}) {
    if (tensor.defined()) defined.push_back(tensor);
  }
  const auto run = [this, has_branch = stream.branch.defined(), has_bias = stream.bias.defined(),
                    has_kv = kv.defined(),
                    common = inputs](const Tensors& tensors, DropoutMasks* dropout) {
    auto next = tensors.begin();
    TokenStream tokens = {.x = *next++};
    if (has_branch) tokens.branch = *next++;
    if (has_bias) tokens.bias = *next++;
    LayerInputs again = common;
    again.dropout = dropout;
    forward(tokens, has_kv ? *next : Tensor(), again);
    return tokens.branch.defined() ? Tensors{tokens.x, tokens.branch} : Tensors{tokens.x};
  };
  const Tensors results =
      RunCheckpointed({.modules = {shared_from_this()}, .run = run}, defined, inputs.dropout);
  stream = {.x = results[0]};
  if (results.size() == 1) return;
  stream.branch = results[1];
  if (!DropoutOf(inputs).is_active()) stream.bias = linear2_->bias;  // otherwise the branch has it
}

// The input of the next sublayer.
Tensor TransformerLayerImpl::Enter(TokenStream& stream, const torch::nn::LayerNorm& norm) const {
  if (!config_.is_pre_norm) return stream.x;
  const AddNormResult result = AddNorm(stream.x, stream.branch, stream.bias, norm);
  stream = {.x = result.sum};
  return result.normed;
}

// Makes a sublayer's result the pending branch of the stream. Its bias stays separate without
// dropout.
void TransformerLayerImpl::Leave(TokenStream& stream, const torch::nn::LayerNorm& norm,
                                 const Tensor& branch, const Tensor& bias,
                                 const LayerInputs& inputs) const {
  stream.branch = branch;
  stream.bias = bias;
  if (const Dropout dropout = DropoutOf(inputs); dropout.is_active()) {
    stream.branch = DropRows(dropout, branch + bias, inputs.batch);
    stream.bias.reset();
  }
  if (config_.is_pre_norm) return;
  stream = {.x = AddNorm(stream.x, stream.branch, stream.bias, norm).normed};
}

}  // namespace dp_bench::policy
