// Attention with its projections, by blocks of batch rows: what is between them stays in the cache.
#pragma once

#include <cstdint>

#include "policy/kernels/attention_kernels.h"
#include "policy/kernels/product_kernels.h"
#include "policy/kernels/two_products_kernels.h"

namespace dp_bench::policy {

/// The sizes of a sublayer of attention. Its tokens are [B * T, d].
struct AttentionBlockShape {
  std::int64_t batch, n_head, head_dim, n_query, n_key;
  std::int64_t memory_row, memory_token;  // strides of the memory, if there is one
  std::int64_t mask_row;                  // of the mask: 0, or S * padded T

  std::int64_t width() const { return n_head * head_dim; }
};

/// y = attention(x w_in^T + bias) w_out^T; x, y [B * T, d]. A row of y has the same bits as from
/// the three operations one after the other.
struct AttentionBlockForward {
  AttentionBlockShape shape;
  const float* x;
  const PackedWeight* w_in;   // in panels: [3d, d]; [d, d], of the queries, if there is a memory
  const float* bias;          // optional, [3d]
  const float* memory;        // keys and values, [B, S, 2d], strided; null: those of the tokens
  const float* mask;          // optional, see AttentionForward
  const float* dropout;       // optional, see AttentionForward
  const PackedWeight* w_out;  // [d, d] in panels
  float* y;
};
void RunAttentionBlockForward(const AttentionBlockForward& args, int n_threads);

/// Whether the gradients are computed in blocks: a block is too small for long sequences.
bool HasBlocks(const AttentionBlockShape& shape);

/// The gradients of the same, which computes it again.
struct AttentionBlockBackward {
  AttentionBlockShape shape;
  const float* bias;
  const float* memory;
  const float* mask;
  const float* dropout;
  float* grad_memory;            // with a memory, and with its strides
  TwoProductsBackward products;  // with w_in and w_out; grad_bias [3d], also without a bias
};
void RunAttentionBlockBackward(const AttentionBlockBackward& args, int n_threads);

}  // namespace dp_bench::policy
