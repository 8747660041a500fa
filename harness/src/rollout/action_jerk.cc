#include "rollout/action_jerk.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::rollout {

void ActionJerk::Add(std::span<const float> action, int chunk) {
  const std::size_t dim = action.size();
  last_.resize(kOrder * dim);
  if (n_steps_ > 0 && chunk != last_chunk_) n_since_seam_ = 0;
  last_chunk_ = chunk;
  const auto before = [&](std::size_t steps, std::size_t d) {
    return static_cast<double>(last_[(n_steps_ - steps) % kOrder * dim + d]);
  };
  if (n_steps_ >= kOrder) {
    double squares = 0.0;
    for (std::size_t d = 0; d < dim; ++d) {
      const double jerk = action[d] - 3.0 * before(1, d) + 3.0 * before(2, d) - before(3, d);
      squares += jerk * jerk;
    }
    Sum& sum = n_since_seam_ < kOrder ? seams_ : elsewhere_;
    sum.total += std::sqrt(squares);
    ++sum.n;
  }
  std::ranges::copy(action, last_.begin() + static_cast<std::ptrdiff_t>(n_steps_ % kOrder * dim));
  ++n_steps_;
  ++n_since_seam_;
}

}  // namespace dp_bench::rollout
