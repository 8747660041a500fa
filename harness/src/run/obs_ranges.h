// Where the observations of the training data lie: what is outside was never seen by the policy.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::run {

/// Of one low-dimensional key, per element in storage order.
struct ObsRange {
  std::vector<double> low;
  std::vector<double> high;

  /// Whether some element lies further outside than 5 % of its range; of one that is constant in
  /// the data, than 1e-3 of its size or of 1, whichever is more. What is no number lies outside.
  bool IsLeftBy(std::span<const float> values) const;
};

/// By observation key. Keys that are absent are not judged.
using ObsRanges = std::map<std::string, ObsRange, std::less<>>;

}  // namespace dp_bench::run
