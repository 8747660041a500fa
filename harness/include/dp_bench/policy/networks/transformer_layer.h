// One layer of a transformer (Vaswani et al. 2017): self-attention, attention to a memory, a
// feed-forward network. Positions are part of the tokens, or are added to the queries and keys of
// every layer as in DETR (Carion et al. 2020). Tensor names and shapes are those of
// torch.nn.TransformerDecoderLayer and, without memory, of torch.nn.TransformerEncoderLayer.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "dp_bench/policy/kernels/token_ops.h"

namespace dp_bench::policy {

/// Sizes and variants of a layer.
struct TransformerLayerConfig {
  std::int64_t n_emb = 512;
  std::int64_t n_head = 8;
  bool is_pre_norm = true;   // normalizes the input of a sublayer; otherwise the sum after it
  bool has_qkv_bias = true;  // of queries, keys and values
  bool has_memory = true;    // a decoder layer
  double p_drop = 0.0;       // attention weights, feed-forward units, outputs of sublayers
  std::int64_t n_feed_forward = 0;  // units of the feed-forward network; 0: 4 * n_emb
  bool has_relu = false;            // in the feed-forward network; otherwise GELU
};

/// A linear layer with a transformer's initialization: weights N(0, 0.02), bias 0.
torch::nn::Linear MakeLinear(std::int64_t in, std::int64_t out);

/// A layer's attention weights: self [B, n_head, T, T], cross [B, n_head, T, S].
struct AttentionMaps {
  torch::Tensor self;
  torch::Tensor cross;  // undefined without memory
};

/// Tokens on their way through the layers. The result of the last sublayer is kept separate until
/// the next norm, which adds it in the same pass.
struct TokenStream {
  torch::Tensor x;       // [B * T, d]
  torch::Tensor branch;  // [B * T, d], still to be added; may be undefined
  torch::Tensor bias;    // [d], still to be added; may be undefined
};

/// Inputs that all layers of one pass share.
struct LayerInputs {
  std::int64_t batch = 0;     // B
  torch::Tensor mask;         // of the self-attention, as in AttentionInputs
  torch::Tensor memory_mask;  // of the attention to the memory
  torch::Tensor position;     // [T, d], added to the tokens for queries and keys; optional
  DropoutMasks* dropout = nullptr;
  std::vector<AttentionMaps>* maps = nullptr;  // every layer appends its own, unless null
};

/// What tokens attend to.
struct AttentionContext {
  std::int64_t batch = 0;  // B
  torch::Tensor kv;        // of a memory, [B, S, 2d], see KeyValueWeight; undefined: the tokens
  torch::Tensor mask;      // as in AttentionInputs
  torch::Tensor position;  // see LayerInputs
  Dropout dropout;         // of the attention weights
};

/// Fused projections; names as in torch.nn.MultiheadAttention.
class MultiheadAttentionImpl : public torch::nn::Module {
 public:
  explicit MultiheadAttentionImpl(const TransformerLayerConfig& config);

  /// tokens [B * T, d] attend to themselves or to a memory -> [B * T, d], without the bias of the
  /// output projection. `map` receives the attention weights, unless it is null.
  torch::Tensor forward(const torch::Tensor& tokens, const AttentionContext& context,
                        torch::Tensor* map);

  /// [2d, d]: keys and values of a memory are memory @ KeyValueWeight^T; their bias is added later.
  torch::Tensor KeyValueWeight() const;

  /// The same for a memory [B, S, d] whose positions [S, d] only the keys have -> [B, S, 2d].
  torch::Tensor ProjectMemory(const torch::Tensor& memory, const torch::Tensor& position) const;

  const torch::Tensor& output_bias() const { return out_proj_->bias; }
  std::int64_t n_head() const { return n_head_; }

 private:
  std::int64_t n_head_;
  torch::Tensor in_proj_weight_;  // [3d, d]
  torch::Tensor in_proj_bias_;    // [3d], undefined when it has none
  torch::nn::Linear out_proj_{nullptr};
};
TORCH_MODULE(MultiheadAttention);

/// Attention within the tokens, attention to the memory if there is one, and a two-layer network.
class TransformerLayerImpl : public torch::nn::Module {
 public:
  explicit TransformerLayerImpl(const TransformerLayerConfig& config);

  /// `kv`: keys and values of the memory [B, S, 2d], undefined for an encoder layer. Tokens that
  /// are the same for all rows of the batch may come once, with a batch of 1 in `inputs`; without
  /// dropout, the rows differ only after they attended to the memory.
  void forward(TokenStream& stream, const torch::Tensor& kv, const LayerInputs& inputs);

  /// The same without keeping activations for the backward pass, see gradient_checkpoint.h. Does
  /// not fill `maps`, and takes no `position`.
  void ForwardCheckpointed(TokenStream& stream, const torch::Tensor& kv, const LayerInputs& inputs);

  /// KeyValueWeight and ProjectMemory of the attention to the memory.
  torch::Tensor KeyValueWeight() const { return multihead_attn_->KeyValueWeight(); }
  torch::Tensor ProjectMemory(const torch::Tensor& memory, const torch::Tensor& position) const {
    return multihead_attn_->ProjectMemory(memory, position);
  }

 private:
  torch::Tensor Enter(TokenStream& stream, const torch::nn::LayerNorm& norm) const;
  void Leave(TokenStream& stream, const torch::nn::LayerNorm& norm, const torch::Tensor& branch,
             const torch::Tensor& bias, const LayerInputs& inputs) const;
  Dropout DropoutOf(const LayerInputs& inputs) const { return {inputs.dropout, config_.p_drop}; }

  TransformerLayerConfig config_;
  MultiheadAttention self_attn_{nullptr};
  MultiheadAttention multihead_attn_{nullptr};  // null without memory
  torch::nn::Linear linear1_{nullptr};
  torch::nn::Linear linear2_{nullptr};
  torch::nn::LayerNorm norm_self_{nullptr};
  torch::nn::LayerNorm norm_cross_{nullptr};  // null without memory
  torch::nn::LayerNorm norm_feed_forward_{nullptr};
};
TORCH_MODULE(TransformerLayer);

}  // namespace dp_bench::policy
