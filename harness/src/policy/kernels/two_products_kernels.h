// The gradients of y = f(x w1^T) w2^T in bfloat16, by blocks of rows. x and y are narrow, and what
// is between them is wide: the hidden units of a feed-forward layer, or queries, keys and values.
// What is wide stays in the cache, block by block, and is computed again for the gradients. Writing
// it to memory and reading it would take longer than the products.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "policy/kernels/product_kernels.h"

namespace dp_bench::policy {

/// f, for one thread.
class BetweenProducts {
 public:
  /// Rows [begin, begin + n_rows), columns [column, column + n) of x w1^T.
  struct Block {
    std::int64_t begin;
    std::int64_t n_rows;
    std::int64_t column;
    std::int64_t n;
    float* hidden;  // x w1^T
    std::int64_t hidden_stride;
    float* grad;  // the gradient of f
    std::int64_t grad_stride;
    float* grad_bias;  // sums over the rows, to be added to
  };
  struct Results {
    const float* values;  // of f, in the columns of its gradient
    std::int64_t values_stride;
    const float* grad_hidden;  // the gradient of x w1^T
    std::int64_t grad_hidden_stride;
  };

  virtual ~BetweenProducts() = default;

  /// The results may take the place of the block's arrays.
  virtual Results Run(const Block& block) = 0;
};

/// x, y, and their gradients are [rows, width]. The weights are kBf16AnyOrder.
struct TwoProductsBackward {
  std::int64_t rows;
  const float* x;
  const float* grad_y;
  const PackedWeight* w1;             // [hidden, width] in panels
  const PackedWeight* w1_transposed;  // [width, hidden] in panels
  const PackedWeight* w2_transposed;  // [values of f, width] in panels
  float* grad_x;
  float* grad_w1;    // [hidden, width]
  float* grad_w2;    // [width, values of f]
  float* grad_bias;  // of f, see BetweenSizes
};

inline constexpr std::int64_t kMaxBlockRows = 256;

/// What f takes and has.
struct BetweenSizes {
  std::int64_t rows_per_block;  // at most kMaxBlockRows; f sees whole blocks
  std::int64_t group;           // columns of x w1^T that f takes at a time, and as many of its own;
                                // if these are all, their number may differ
  std::int64_t n_biases;
};

/// Calls `make` once for each thread. The number of threads does not change the result.
void RunTwoProductsBackward(const TwoProductsBackward& args, const BetweenSizes& sizes,
                            const std::function<std::unique_ptr<BetweenProducts>()>& make,
                            int n_threads);

}  // namespace dp_bench::policy
