// Shared by the token operations: which tensors their loops accept, and how tensors are passed.
#pragma once

#include <torch/types.h>

#include <optional>

#include "dp_bench/policy/kernels/autocast.h"

namespace dp_bench::policy {

/// Whether a tensor is float32 on the CPU.
inline bool UsesOwnLoops(const torch::Tensor& x) {
  return x.device().is_cpu() && x.scalar_type() == torch::kFloat32;
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
