// Attention with its projections, as one node of the autograd graph where that is faster.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "dp_bench/policy/kernels/token_ops.h"

namespace dp_bench::policy {

/// The projections of one attention. Their weights are [out, in].
struct AttentionProjections {
  torch::Tensor w_in;   // [3d, d]; [d, d], that of the queries, if the keys are those of a memory
  torch::Tensor w_out;  // [d, d]; its bias is not added
  std::int64_t n_head;
};

/// Attention(x w_in^T) w_out^T for x [B * T, d]. `inputs` has everything but q.
torch::Tensor ProjectedAttention(const torch::Tensor& x, std::int64_t batch,
                                 const AttentionProjections& projections,
                                 const AttentionInputs& inputs);

}  // namespace dp_bench::policy
