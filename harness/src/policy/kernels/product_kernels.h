// Matrix products in which every element is one chain of fused multiply-adds over the inner
// dimension, in order. So an element's bits do not depend on the batch size, its place in the
// batch, the number of threads, or the CPU (with FMA). A BLAS guarantees none of this: it chooses
// its kernels, and with them the order of the sum, by shape, place and processor.
#pragma once

#include <cstdint>

namespace dp_bench::policy {

/// c[i, j] = sum_k w[i, k] x[k, j], added to c if `accumulates`. Strides are in elements; the rows
/// of w are dense.
struct MatrixProduct {
  std::int64_t n_rows;     // of w and c
  std::int64_t n_inner;    // columns of w
  std::int64_t n_columns;  // columns of x and c: the large dimension of a batch
  const float* w;
  std::int64_t w_stride;
  const float* x;
  std::int64_t x_inner_stride;   // from k to k + 1
  std::int64_t x_column_stride;  // from j to j + 1; one of the two strides is 1
  float* c;
  std::int64_t c_row_stride;     // from i to i + 1
  std::int64_t c_column_stride;  // from j to j + 1; one of the two strides is 1
  bool accumulates = false;
};

void RunMatrixProduct(const MatrixProduct& args, int n_threads);

}  // namespace dp_bench::policy
