// Which rows of a batch belong to which of several processes.
#pragma once

#include <algorithm>
#include <cstdint>

namespace dp_bench {

/// The share of process `index` of `count`: contiguous, in their order; sizes differ by one at
/// most and the first processes have the larger ones. So process 0 has a row of every batch, and
/// the last ones none where there are fewer rows than processes.
struct Shard {
  int index = 0;
  int count = 1;

  /// The first row of its share of `n_rows`.
  std::int64_t Begin(std::int64_t n_rows) const {
    return index * (n_rows / count) + std::min<std::int64_t>(index, n_rows % count);
  }
  std::int64_t Size(std::int64_t n_rows) const {
    return n_rows / count + (index < n_rows % count ? 1 : 0);
  }
};

}  // namespace dp_bench
