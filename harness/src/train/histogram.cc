#include "train/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>

namespace dp_bench::train {
namespace {

constexpr double kSmallestLimit = 1e-12;
constexpr double kLargestLimit = 1e20;
constexpr double kGrowth = 1.1;

// Limits from -DBL_MAX over 0 to DBL_MAX, ascending.
std::vector<double> MakeLimits() {
  std::vector<double> positive;
  for (double limit = kSmallestLimit; limit < kLargestLimit; limit *= kGrowth) {
    positive.push_back(limit);
  }
  positive.push_back(std::numeric_limits<double>::max());

  std::vector<double> limits;
  std::transform(positive.rbegin(), positive.rend(), std::back_inserter(limits), std::negate<>());
  limits.push_back(0.0);
  limits.insert(limits.end(), positive.begin(), positive.end());
  return limits;
}

const std::vector<double>& Limits() {
  static const std::vector<double> limits = MakeLimits();
  return limits;
}

// Appends the buckets to the histogram. Each run of empty ones becomes one with the run's last
// limit.
void Compress(const std::vector<double>& counts, Histogram* histogram) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const bool continues = i + 1 < counts.size() && counts[i] == 0.0 && counts[i + 1] == 0.0;
    if (continues) continue;
    histogram->bucket_limits.push_back(Limits()[i]);
    histogram->buckets.push_back(counts[i]);
  }
}

}  // namespace

Histogram MakeHistogram(std::span<const float> values) {
  Histogram histogram;
  histogram.num = static_cast<double>(values.size());
  histogram.min = std::numeric_limits<double>::infinity();
  histogram.max = -std::numeric_limits<double>::infinity();
  std::vector<double> counts(Limits().size());
  for (const float single : values) {
    const double value = single;
    histogram.sum += value;
    histogram.sum_squares += value * value;
    if (!std::isfinite(value)) continue;
    histogram.min = std::min(histogram.min, value);
    histogram.max = std::max(histogram.max, value);
    const auto limit = std::ranges::upper_bound(Limits(), value);
    ++counts[static_cast<std::size_t>(limit - Limits().begin())];
  }
  if (histogram.min > histogram.max) {
    histogram.min = histogram.max = std::numeric_limits<double>::quiet_NaN();
  }
  Compress(counts, &histogram);
  return histogram;
}

}  // namespace dp_bench::train
