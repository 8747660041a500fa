// Matrix products of networks. In inference on the CPU in float32 they run on product_kernels.h, so
// that what a row of a batch becomes is a function of that row alone. Training takes what is
// fastest; everything else is LibTorch's.
#pragma once

#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace dp_bench::policy {

/// x W^T; x [..., K], weight [N, K] -> [..., N].
torch::Tensor RowProduct(const torch::Tensor& x, const torch::Tensor& weight);

/// RowProduct with a layer's weight and bias.
torch::Tensor ApplyLinear(const torch::nn::Linear& linear, const torch::Tensor& x);

/// W x on the CPU in float32, without gradients: weight [O, K], x [K, columns] -> out [O, columns],
/// which is added to where `accumulates`. A column depends on that column alone.
void ColumnProduct(const torch::Tensor& weight, const torch::Tensor& x, bool accumulates,
                   torch::Tensor& out);

}  // namespace dp_bench::policy
