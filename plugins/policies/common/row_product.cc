// See row_product.h.
#include "row_product.h"

#include "product_kernels.h"

namespace dp_bench::common {
namespace {

using torch::Tensor;

bool UsesOwnKernels(const Tensor& x) {
  return !torch::GradMode::is_enabled() && x.device().is_cpu() &&
         x.scalar_type() == torch::kFloat32;
}

Tensor WithDenseRows(const Tensor& matrix) {
  return matrix.stride(1) == 1 ? matrix : matrix.contiguous();
}

}  // namespace

Tensor RowProduct(const Tensor& x, const Tensor& weight) {
  if (!UsesOwnKernels(x)) return torch::matmul(x, weight.t());
  const Tensor rows = x.reshape({-1, x.size(-1)}).contiguous();
  const Tensor w = WithDenseRows(weight);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = w.size(0);
  Tensor out = at::empty(shape, x.options());
  RunMatrixProduct({.n_rows = w.size(0),
                    .n_inner = w.size(1),
                    .n_columns = rows.size(0),
                    .w = w.const_data_ptr<float>(),
                    .w_stride = w.stride(0),
                    .x = rows.const_data_ptr<float>(),
                    .x_inner_stride = 1,
                    .x_column_stride = rows.size(1),
                    .c = out.mutable_data_ptr<float>(),
                    .c_row_stride = 1,
                    .c_column_stride = w.size(0)},
                   at::get_num_threads());
  return out;
}

Tensor ApplyLinear(const torch::nn::Linear& linear, const Tensor& x) {
  if (!UsesOwnKernels(x)) return torch::linear(x, linear->weight, linear->bias);
  const Tensor y = RowProduct(x, linear->weight);
  return linear->bias.defined() ? y + linear->bias : y;
}

void ColumnProduct(const Tensor& weight, const Tensor& x, bool accumulates, Tensor& out) {
  const Tensor w = WithDenseRows(weight);
  const Tensor columns = WithDenseRows(x);
  RunMatrixProduct({.n_rows = w.size(0),
                    .n_inner = w.size(1),
                    .n_columns = columns.size(1),
                    .w = w.const_data_ptr<float>(),
                    .w_stride = w.stride(0),
                    .x = columns.const_data_ptr<float>(),
                    .x_inner_stride = columns.stride(0),
                    .x_column_stride = 1,
                    .c = out.mutable_data_ptr<float>(),
                    .c_row_stride = out.stride(0),
                    .c_column_stride = 1,
                    .accumulates = accumulates},
                   at::get_num_threads());
}

}  // namespace dp_bench::common
