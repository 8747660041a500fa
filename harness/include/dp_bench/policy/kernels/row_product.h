// Matrix products of networks. In inference on the CPU in float32 they use product_kernels.h, so
// the result for a batch row depends only on that row. Training uses the fastest implementation.
// Everything else uses LibTorch.
#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

namespace dp_bench::policy {

/// x W^T; x [..., K], weight [N, K] -> [..., N].
torch::Tensor RowProduct(const torch::Tensor& x, const torch::Tensor& weight);

/// RowProduct with a layer's weight and bias.
torch::Tensor ApplyLinear(const torch::nn::Linear& linear, const torch::Tensor& x);

/// The convolution of a layer without dilation, groups or padding other than zeros;
/// images [B, C, H, W] -> [B, O, H', W'].
torch::Tensor ApplyConv2d(torch::nn::Conv2d conv, const torch::Tensor& images);

/// W x on the CPU in float32, without gradients: weight [O, K], x [K, columns] -> out [O, columns],
/// added to out if `accumulates`. A column of the result depends only on that column of x.
void ColumnProduct(const torch::Tensor& weight, const torch::Tensor& x, bool accumulates,
                   torch::Tensor& out);

}  // namespace dp_bench::policy
