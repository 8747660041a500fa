// The loops behind feed_forward.h, by blocks of rows. The hidden units of a block stay in the
// cache: those of all rows would be the largest array of a training step, and reading and writing
// them the largest part of its time.
#pragma once

#include <cstdint>

#include "policy/kernels/product_kernels.h"
#include "policy/kernels/token_kernels.h"
#include "policy/kernels/two_products_kernels.h"

namespace dp_bench::policy {

/// y = dropout(activation(x w1^T + bias)) w2^T; x, y [rows, width]. A row of y has the same bits as
/// from the three operations one after the other.
struct FeedForwardForward {
  Activation activation;
  std::int64_t rows;
  const float* x;
  const PackedWeight* w1;  // [hidden, width] in panels
  const float* bias;       // [hidden]
  const float* dropout;    // multipliers, [rows, hidden]; null: none
  const PackedWeight* w2;  // [width, hidden] in panels
  float* y;
};
void RunFeedForwardForward(const FeedForwardForward& args, int n_threads);

/// The gradients of the same, which computes the hidden units again.
struct FeedForwardBackward {
  Activation activation;
  const float* bias;
  const float* dropout;
  TwoProductsBackward products;  // the hidden units are between them
};
void RunFeedForwardBackward(const FeedForwardBackward& args, int n_threads);

}  // namespace dp_bench::policy
