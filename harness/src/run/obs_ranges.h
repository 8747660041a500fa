// The range of the observations in the training data. The policy never saw anything outside.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::run {

/// One low-dimensional key, per element in storage order.
struct ObsRange {
  std::vector<double> low;
  std::vector<double> high;

  /// Whether any element is outside of its range by more than 5 % of the range. For an element that
  /// is constant in the data the margin is 1e-3 of its size, and at least 1e-3. NaN is outside.
  bool IsLeftBy(std::span<const float> values) const;
};

/// By observation key. Missing keys are not checked.
using ObsRanges = std::map<std::string, ObsRange, std::less<>>;

}  // namespace dp_bench::run
