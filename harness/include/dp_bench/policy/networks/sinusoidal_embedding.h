// The positional encoding of Vaswani et al. 2017, Sec. 3.5, in Diffusion Policy's order: sines,
// then cosines.
#pragma once

#include <torch/types.h>

#include <cmath>
#include <cstdint>

namespace dp_bench::policy {

/// positions int64 [N] -> [N, dim] float32; dim even, at least 4.
inline torch::Tensor SinusoidalEmbedding(const torch::Tensor& positions, std::int64_t dim) {
  const std::int64_t half = dim / 2;
  const double decay = std::log(10000.0) / static_cast<double>(half - 1);
  const torch::Tensor frequencies =
      torch::exp(torch::arange(half, positions.options().dtype(torch::kFloat32)) * -decay);
  const torch::Tensor angles = positions.unsqueeze(-1) * frequencies;
  return torch::cat({angles.sin(), angles.cos()}, /*dim=*/-1);
}

}  // namespace dp_bench::policy
