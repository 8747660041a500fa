// "Student", Biometrika 6 (1908) 1. Quantiles come from Boost.Math.
#include "compare/mean_interval.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "dp_bench/error.h"

namespace dp_bench::compare {

MeanInterval StudentInterval(std::span<const double> values, double confidence,
                             double std_dev_if_equal) {
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
  const double spread = result.std_dev > 0.0 ? result.std_dev : std_dev_if_equal;
  const double half = t * spread / std::sqrt(n);
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

MeanInterval WelchInterval(std::span<const double> a, std::span<const double> b,
                           double confidence) {
  const MeanInterval of_a = StudentInterval(a, confidence);
  const MeanInterval of_b = StudentInterval(b, confidence);
  MeanInterval result = {.n = std::min(of_a.n, of_b.n), .mean = of_b.mean - of_a.mean};
  if (result.n < 2) {
    result.low = -std::numeric_limits<double>::infinity();
    result.high = std::numeric_limits<double>::infinity();
    return result;
  }
  const double error_a = of_a.std_dev * of_a.std_dev / of_a.n;
  const double error_b = of_b.std_dev * of_b.std_dev / of_b.n;
  const double error = error_a + error_b;
  result.std_dev = std::sqrt(error);
  result.low = result.high = result.mean;
  if (error == 0.0) return result;
  const double freedom =
      error * error / (error_a * error_a / (of_a.n - 1) + error_b * error_b / (of_b.n - 1));
  const double half = result.std_dev * boost::math::quantile(boost::math::students_t(freedom),
                                                             0.5 + confidence / 2.0);
  result.low -= half;
  result.high += half;
  return result;
}

}  // namespace dp_bench::compare
