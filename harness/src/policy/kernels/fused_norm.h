// GroupNorm (Wu and He 2018), Mish (Misra 2019), FiLM (Perez et al. 2018) and the residual sum in
// one pass over activations [C, T, B]. Vectors run across the batch, so the statistics need no
// horizontal sums.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace dp_bench::policy {

/// The inputs of the fused pass besides the activations. Undefined tensors are left out.
struct NormInputs {
  torch::Tensor bias;      // [C], the bias of the convolution, added before the normalization
  torch::Tensor gamma;     // [C]
  torch::Tensor beta;      // [C]
  torch::Tensor film;      // [2C, B] scale then offset, or [C, B] offset alone; optional
  torch::Tensor residual;  // [C, T, B]; optional
};

/// mish(group_norm(x + bias)) * scale + offset + residual; x [C, T, B] float32 on the CPU, C a
/// multiple of n_groups. Differentiable in all inputs.
torch::Tensor NormMishFilm(const torch::Tensor& x, const NormInputs& inputs, std::int64_t n_groups,
                           double eps);

/// mish(x) without gradient; x float32 on the CPU. LibTorch's version rounds the last elements of a
/// tensor differently from the others, so a row would depend on its place in the batch.
torch::Tensor PositionIndependentMish(const torch::Tensor& x);

}  // namespace dp_bench::policy
