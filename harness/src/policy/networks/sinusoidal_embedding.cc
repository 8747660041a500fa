#include "policy/networks/sinusoidal_embedding.h"

#include <cmath>
#include <vector>

#include "policy/kernels/loop_tensors.h"

namespace dp_bench::policy {
namespace {

using torch::Tensor;

// Computed in double and rounded once, unless the positions are in double too.
Tensor Frequencies(std::int64_t half, const Tensor& positions) {
  const double decay = std::log(10000.0) / static_cast<double>(half - 1);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    frequencies.push_back(std::exp(-decay * static_cast<double>(i)));
  }
  const bool is_double = positions.scalar_type() == torch::kFloat64;
  return torch::tensor(frequencies, torch::kFloat64)
      .to(positions.device(), is_double ? torch::kFloat64 : torch::kFloat32);
}

}  // namespace

Tensor SinusoidalEmbedding(const Tensor& positions, std::int64_t dim) {
  const std::int64_t half = dim / 2;
  const Tensor angles = positions.unsqueeze(-1) * Frequencies(half, positions);
  if (!UsesOwnLoops(angles)) return torch::cat({angles.sin(), angles.cos()}, /*dim=*/-1);
  Tensor code = torch::empty({angles.size(0), dim});
  const float* angle = angles.const_data_ptr<float>();
  float* row = code.mutable_data_ptr<float>();
  for (std::int64_t n = 0; n < angles.size(0); ++n, angle += half, row += dim) {
    for (std::int64_t i = 0; i < half; ++i) {
      row[i] = static_cast<float>(std::sin(static_cast<double>(angle[i])));
      row[half + i] = static_cast<float>(std::cos(static_cast<double>(angle[i])));
    }
  }
  return code;
}

}  // namespace dp_bench::policy
