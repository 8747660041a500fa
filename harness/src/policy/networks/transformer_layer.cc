// See transformer_layer.h. Matrix products run without bias. The following pass over the product
// adds it at no extra cost.
#include "dp_bench/policy/networks/transformer_layer.h"

#include "core/errors.h"
#include "dp_bench/policy/kernels/row_product.h"
#include "policy/kernels/gradient_checkpoint.h"

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

AttentionInputs MultiheadAttentionImpl::ProjectSelf(const Tensor& tokens, std::int64_t batch,
                                                    const Tensor& position) const {
  const std::int64_t d = in_proj_weight_.size(1);
  const Tensor qkv =
      position.defined()
          ? torch::cat(
                {RowProduct(WithPositions(tokens, position), in_proj_weight_.narrow(0, 0, 2 * d)),
                 RowProduct(tokens, in_proj_weight_.narrow(0, 2 * d, d))},
                /*dim=*/1)
          : RowProduct(tokens, in_proj_weight_);
  return {.q = qkv.view({batch, -1, qkv.size(1)}), .bias = in_proj_bias_};
}

AttentionInputs MultiheadAttentionImpl::ProjectQueries(const Tensor& tokens, const Tensor& kv,
                                                       const Tensor& position) const {
  const std::int64_t d = in_proj_weight_.size(1);
  const Tensor q = RowProduct(WithPositions(tokens, position), in_proj_weight_.narrow(0, 0, d));
  return {.q = q.view({kv.size(0), -1, d}), .kv = kv, .bias = in_proj_bias_};
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

Tensor MultiheadAttentionImpl::Attend(const AttentionInputs& inputs) const {
  const Tensor out = Attention(inputs, n_head_).flatten(0, 1);
  return RowProduct(out, out_proj_->weight);
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
  const Dropout dropout = DropoutOf(inputs);

  AttentionInputs self =
      self_attn_->ProjectSelf(Enter(stream, norm_self_), inputs.batch, inputs.position);
  self.mask = inputs.mask;
  self.dropout = dropout;
  if (inputs.maps != nullptr) maps.self = AttentionWeights(self, config_.n_head);
  Leave(stream, norm_self_, self_attn_->Attend(self), self_attn_->output_bias(), inputs);

  if (!multihead_attn_.is_empty()) {
    if (inputs.batch < kv.size(0)) Repeat(stream, kv.size(0));
    AttentionInputs cross =
        multihead_attn_->ProjectQueries(Enter(stream, norm_cross_), kv, inputs.position);
    cross.mask = inputs.memory_mask;
    cross.dropout = dropout;
    if (inputs.maps != nullptr) maps.cross = AttentionWeights(cross, config_.n_head);
    Leave(stream, norm_cross_, multihead_attn_->Attend(cross), multihead_attn_->output_bias(),
          inputs);
  }

  const Tensor in = Enter(stream, norm_feed_forward_);
  Tensor hidden = RowProduct(in, linear1_->weight);
  hidden = config_.has_relu ? BiasRelu(hidden, linear1_->bias) : BiasGelu(hidden, linear1_->bias);
  if (dropout.is_active()) hidden = DropRows(dropout, hidden, inputs.batch);
  Leave(stream, norm_feed_forward_, RowProduct(hidden, linear2_->weight), linear2_->bias, inputs);
  if (inputs.maps != nullptr) inputs.maps->push_back(maps);
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
