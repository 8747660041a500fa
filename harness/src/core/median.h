#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dp_bench::core {

/// Of an even number of values, the mean of the two in the middle; of none, 0.
inline double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

}  // namespace dp_bench::core
