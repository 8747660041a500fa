// Statistics of one key over a dataset, accumulated in float64.
#pragma once

#include <cstdint>
#include <vector>

namespace dp_bench {

/// Per element of the key's shape (flattened, storage order); std is the population's (divides by
/// count, as numpy does).
struct KeyStats {
  std::vector<double> min;
  std::vector<double> max;
  std::vector<double> mean;
  std::vector<double> std;
  std::int64_t count = 0;  // steps
};

}  // namespace dp_bench
