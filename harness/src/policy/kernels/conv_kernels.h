// Convolutions over images as the matrix products of product_kernels.h: the patches of x become
// columns. So the bits of an element do not depend on the batch, the number of threads or the CPU
// (with FMA).
#pragma once

#include <cstdint>

#include "policy/kernels/product_kernels.h"

namespace dp_bench::policy {

/// One axis of the images: out = (in + 2 padding - kernel) / stride + 1.
struct ConvAxis {
  std::int64_t in;
  std::int64_t out;
  std::int64_t kernel;
  std::int64_t stride;
  std::int64_t padding;  // with zeros, on both sides
};

/// y = conv(x, w) + bias, the cross-correlation of torch.nn.Conv2d. All arrays are dense.
struct Conv2dForward {
  std::int64_t batch;
  std::int64_t channels;
  std::int64_t out_channels;
  ConvAxis rows;
  ConvAxis columns;
  const float* x;     // [B, C, H, W]
  PackedWeight w;     // [O, C * KH * KW], in rows
  const float* bias;  // [O], or null
  float* y;           // [B, O, H', W']
};

void RunConv2dForward(const Conv2dForward& args, int n_threads);

}  // namespace dp_bench::policy
