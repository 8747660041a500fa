#include "policy/networks/sinusoidal_embedding.h"

#include <cmath>
#include <vector>

#include "policy/kernels/loop_tensors.h"

namespace dp_bench::policy {

using torch::Tensor;

SinusoidalEmbedding::SinusoidalEmbedding(std::int64_t dim) {
  const std::int64_t half = dim / 2;
  const double decay = std::log(10000.0) / static_cast<double>(half - 1);
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    frequencies.push_back(std::exp(-decay * static_cast<double>(i)));
  }
  exact_ = torch::tensor(frequencies, torch::kFloat64);
  frequencies_ = exact_.to(torch::kFloat32);
}

Tensor SinusoidalEmbedding::operator()(const Tensor& positions) {
  const bool is_double = positions.scalar_type() == torch::kFloat64;
  const torch::ScalarType type = is_double ? torch::kFloat64 : torch::kFloat32;
  // moved once: a graph of the network must not copy from the host
  if (frequencies_.device() != positions.device() || frequencies_.scalar_type() != type) {
    frequencies_ = exact_.to(positions.device(), type);
  }
  const Tensor angles = positions.unsqueeze(-1) * frequencies_;
  if (!UsesOwnLoops(angles)) return torch::cat({angles.sin(), angles.cos()}, /*dim=*/-1);
  const std::int64_t half = angles.size(1);
  Tensor code = torch::empty({angles.size(0), 2 * half});
  const float* angle = angles.const_data_ptr<float>();
  float* row = code.mutable_data_ptr<float>();
  for (std::int64_t n = 0; n < angles.size(0); ++n, angle += half, row += 2 * half) {
    for (std::int64_t i = 0; i < half; ++i) {
      row[i] = static_cast<float>(std::sin(static_cast<double>(angle[i])));
      row[half + i] = static_cast<float>(std::cos(static_cast<double>(angle[i])));
    }
  }
  return code;
}

}  // namespace dp_bench::policy
