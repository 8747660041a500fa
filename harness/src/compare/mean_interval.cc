// "Student", Biometrika 6 (1908) 1. Quantiles come from Boost.Math.
#include "compare/mean_interval.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "dp_bench/error.h"

namespace dp_bench::compare {

MeanInterval StudentInterval(std::span<const double> values, double confidence) {
  DPB_ASSERT(!values.empty() && confidence > 0.0 && confidence < 1.0);
  const auto n = static_cast<double>(values.size());
  MeanInterval result = {.n = static_cast<int>(values.size())};
  for (const double value : values) result.mean += value / n;
  if (values.size() == 1) {
    result.low = -std::numeric_limits<double>::infinity();
    result.high = std::numeric_limits<double>::infinity();
    return result;
  }

  double squares = 0.0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.std_dev = std::sqrt(squares / (n - 1.0));
  const double t = boost::math::quantile(boost::math::students_t(n - 1.0), 0.5 + confidence / 2.0);
  const double half = t * result.std_dev / std::sqrt(n);
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

}  // namespace dp_bench::compare
