// E. B. Wilson, JASA 22 (1927) 209; C. Clopper and E. Pearson, Biometrika 26 (1934) 404. Quantiles
// come from Boost.Math.
#include "compare/success_rate.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "dp_bench/error.h"

namespace dp_bench::compare {
namespace {

RateInterval WithoutBounds(int n_success, int n, double confidence) {
  DPB_ASSERT(n >= 0 && n_success >= 0 && n_success <= n);
  DPB_ASSERT(confidence > 0.0 && confidence < 1.0);
  return {.n_success = n_success, .n = n, .rate = n > 0 ? static_cast<double>(n_success) / n : 0.0};
}

}  // namespace

nlohmann::json ToJson(const RateInterval& interval) {
  return {{"rate", interval.rate},
          {"low", interval.low},
          {"high", interval.high},
          {"n_success", interval.n_success},
          {"n", interval.n}};
}

RateInterval WilsonInterval(int n_success, int n, double confidence) {
  RateInterval interval = WithoutBounds(n_success, n, confidence);
  if (n == 0) return interval;
  const double z = boost::math::quantile(boost::math::normal(), 0.5 + confidence / 2.0);
  const double p = interval.rate;
  const double shrink = 1.0 + z * z / n;
  const double centre = (p + z * z / (2.0 * n)) / shrink;
  const double half = z / shrink * std::sqrt(p * (1.0 - p) / n + z * z / (4.0 * n * n));
  // at the ends the formula gives 0 and 1, apart from rounding
  interval.low = n_success == 0 ? 0.0 : std::max(0.0, centre - half);
  interval.high = n_success == n ? 1.0 : std::min(1.0, centre + half);
  return interval;
}

RateInterval ClopperPearsonInterval(int n_success, int n, double confidence) {
  RateInterval interval = WithoutBounds(n_success, n, confidence);
  if (n == 0) return interval;
  using Binomial = boost::math::binomial;
  const double tail = (1.0 - confidence) / 2.0;
  interval.low = Binomial::find_lower_bound_on_p(n, n_success, tail);
  interval.high = Binomial::find_upper_bound_on_p(n, n_success, tail);
  return interval;
}

}  // namespace dp_bench::compare
