// See gaussian_field.h.
#include "dp_bench/policy/networks/gaussian_field.h"

#include "dp_bench/random.h"

namespace dp_bench::policy {

void FillGaussianFields(const std::vector<std::uint64_t>& keys, std::int64_t planes,
                        std::int64_t plane_size, float* out, int n_threads) {
  const std::int64_t n_tasks = static_cast<std::int64_t>(keys.size()) * planes;
#pragma omp parallel for num_threads(n_threads) if (n_threads > 1)
  for (std::int64_t task = 0; task < n_tasks; ++task) {
    const std::uint64_t key = keys[static_cast<std::size_t>(task / planes)];
    RandomStream stream(key, StreamId::kAugment, static_cast<std::uint64_t>(task % planes));
    float* plane = out + task * plane_size;
    for (std::int64_t i = 0; i < plane_size; ++i) plane[i] = stream.Normal();
  }
}

}  // namespace dp_bench::policy
