// The positional encoding of Vaswani et al. 2017, Sec. 3.5, in Diffusion Policy's order: sines,
// then cosines.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace dp_bench::policy {

/// On the CPU, the bits do not depend on the processor: LibTorch's exponential, sine and cosine
/// round differently on different ones.
class SinusoidalEmbedding {
 public:
  /// `dim` even, at least 4.
  explicit SinusoidalEmbedding(std::int64_t dim);

  /// positions [N], int64 or float32 -> [N, dim] float32; float64 -> float64.
  torch::Tensor operator()(const torch::Tensor& positions);

 private:
  torch::Tensor frequencies_;  // [dim / 2], on the device of the last positions
  torch::Tensor exact_;        // the same in float64, on the CPU
};

}  // namespace dp_bench::policy
