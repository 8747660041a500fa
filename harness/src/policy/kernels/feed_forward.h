// The feed-forward layer of a transformer, as one node of the autograd graph where that is faster.
#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <cstdint>

#include "dp_bench/policy/kernels/token_ops.h"
#include "policy/kernels/token_kernels.h"

namespace dp_bench::policy {

/// What `FeedForward` takes besides its input.
struct FeedForwardLayers {
  const torch::nn::Linear& linear1;  // width -> hidden
  const torch::nn::Linear& linear2;  // hidden -> width; its bias is not added
  Activation activation;
  Dropout dropout;     // of the hidden units
  std::int64_t batch;  // rows of the batch, which share a dropout mask; x has rows / batch tokens
};

/// dropout(activation(x W1^T + b1)) W2^T; x [rows, width] -> [rows, width].
torch::Tensor FeedForward(const torch::Tensor& x, const FeedForwardLayers& layers);

}  // namespace dp_bench::policy
