// The loops behind Attention of token_ops.h, for short sequences: action chunks of a few dozen
// steps and a few condition tokens. They process one batch row at a time, head by head, in buffers
// that stay in the first-level cache. Vectors run across the queries or the features of a head.
#pragma once

#include <cstdint>

namespace dp_bench::policy {

/// Queries are padded to whole vectors: probabilities are [B, H, S, PaddedQueries(T)].
constexpr std::int64_t kQueryLanes = 16;
constexpr std::int64_t PaddedQueries(std::int64_t n_query) {
  return (n_query + kQueryLanes - 1) / kQueryLanes * kQueryLanes;
}

/// The location of queries (T per batch row), keys and values (S): feature c of head h of token t
/// of row b is at pointer[b * row + t * token + h * head_dim + c].
struct AttentionShape {
  std::int64_t batch, n_head, head_dim, n_query, n_key;
  std::int64_t q_row, q_token;    // strides of q, in elements
  std::int64_t kv_row, kv_token;  // strides of k and v
  std::int64_t mask_row;          // of the mask: 0, or S * padded T
};

/// Pointers for the forward pass of attention.
struct AttentionForward {
  AttentionShape shape;
  const float* q;
  const float* k;
  const float* v;
  const float* bias;     // optional, [3 * H * head_dim]: added to q, k, v
  const float* mask;     // optional, added to the scores, [S, padded T] (per row); -inf excludes
  const float* dropout;  // optional, multiplies the probabilities, [B, H, S, padded T]
  float* out;            // [B, T, H * head_dim]
  float* probabilities;  // before dropout, [B, H, S, padded T]
};

/// The strides of the gradients equal those of their tensors.
struct AttentionBackward {
  AttentionShape shape;
  const float* q;
  const float* k;
  const float* v;
  const float* bias;
  const float* dropout;
  const float* probabilities;
  const float* grad_out;  // [B, T, H * head_dim]
  float* grad_q;
  float* grad_k;
  float* grad_v;
  float* grad_bias;  // optional, [3 * H * head_dim]
};

/// Uses at most `n_threads` threads; their number does not change the result.
void RunAttentionForward(const AttentionForward& args, int n_threads);
void RunAttentionBackward(const AttentionBackward& args, int n_threads);

}  // namespace dp_bench::policy
