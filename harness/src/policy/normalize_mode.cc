#include "policy/normalize_mode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "dp_bench/error.h"

namespace dp_bench::policy {

NormalizeMode ParseNormalizeMode(std::string_view name) {
  const auto found = std::ranges::find(kNormalizeModeNames, name);
  if (found != kNormalizeModeNames.end()) {
    return static_cast<NormalizeMode>(found - kNormalizeModeNames.begin());
  }
  throw Error(ErrorCode::kConfig, fmt::format("'{}' is not a normalization mode; the modes are {}",
                                              name, fmt::join(kNormalizeModeNames, ", ")));
}

std::vector<int> FindZeroRangeDims(const KeyStats& stats, NormalizeMode mode) {
  std::vector<double> spread;
  if (mode == NormalizeMode::kLimits) {
    std::ranges::transform(stats.max, stats.min, std::back_inserter(spread), std::minus());
  }
  if (mode == NormalizeMode::kGaussian || mode == NormalizeMode::kImageGaussian) spread = stats.std;
  std::vector<int> dims;
  for (std::size_t i = 0; i < spread.size(); ++i) {
    if (spread[i] < kRangeEps) dims.push_back(static_cast<int>(i));
  }
  return dims;
}

}  // namespace dp_bench::policy
