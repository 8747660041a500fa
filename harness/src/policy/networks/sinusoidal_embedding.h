// The positional encoding of Vaswani et al. 2017, Sec. 3.5, in Diffusion Policy's order: sines,
// then cosines.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace dp_bench::policy {

/// positions [N], int64 or float32 -> [N, dim] float32; dim even, at least 4. On the CPU, the bits
/// do not depend on the processor: LibTorch's exponential, sine and cosine round differently on
/// different ones.
torch::Tensor SinusoidalEmbedding(const torch::Tensor& positions, std::int64_t dim);

}  // namespace dp_bench::policy
