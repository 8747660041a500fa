#include "run/obs_ranges.h"

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"

namespace dp_bench::run {
namespace {

constexpr double kMargin = 0.05;          // of the range
constexpr double kConstantRange = 1e-4;   // as for the normalizer's zero_range_dims
constexpr double kConstantMargin = 1e-3;  // of the size; rounding and contact change it by less

double Margin(double low, double high) {
  if (high - low >= kConstantRange) return kMargin * (high - low);
  return kConstantMargin * std::max({1.0, std::abs(low), std::abs(high)});
}

}  // namespace

bool ObsRange::IsLeftBy(std::span<const float> values) const {
  DPB_ASSERT(values.size() == low.size() && values.size() == high.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double margin = Margin(low[i], high[i]);
    const double value = values[i];
    if (!(value >= low[i] - margin && value <= high[i] + margin)) return true;
  }
  return false;
}

}  // namespace dp_bench::run
