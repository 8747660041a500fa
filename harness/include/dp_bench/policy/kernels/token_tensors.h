// Shared by the kernels: which tensors our own loops accept, and how tensors are passed.
#pragma once

#include <ATen/TracerMode.h>
#include <torch/types.h>

#include <optional>

#include "dp_bench/policy/kernels/autocast.h"

namespace dp_bench::policy {

/// Whether our own loops work on `x`: it is float32 on the CPU, and no graph is being traced. A
/// tracer sees only LibTorch's operators.
inline bool UsesOwnLoops(const torch::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat32 &&
         !at::tracer::impl::is_dispatch_enabled();
}

/// On the CPU, tensors that autocast left in lower precision are converted to float32 for our own
/// loops.
inline torch::Tensor ForLoops(const torch::Tensor& x) {
  return x.defined() && x.device().is_cpu() ? FullPrecision(x) : x;
}

/// An autograd function takes an undefined tensor as nullopt.
inline std::optional<torch::Tensor> IfDefined(const torch::Tensor& tensor) {
  return tensor.defined() ? std::optional<torch::Tensor>(tensor) : std::nullopt;
}

inline const float* DataOrNull(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

}  // namespace dp_bench::policy
