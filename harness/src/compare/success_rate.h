// Intervals for a success rate: how far the true rate may be from the rate of n episodes.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace dp_bench::compare {

struct RateInterval {
  int n_success = 0;
  int n = 0;
  double rate = 0.0;  // n_success / n; 0 without episodes
  double low = 0.0;
  double high = 1.0;
};

/// {rate, low, high, n_success, n}
nlohmann::json ToJson(const RateInterval& interval);

/// The score interval of Wilson (1927), which every report shows. It is correct on average even
/// near 0 and 1. Without episodes it is [0, 1].
RateInterval WilsonInterval(int n_success, int n, double confidence = 0.95);

/// The exact interval of Clopper and Pearson (1934), for claims such as "at least". Its coverage is
/// never below `confidence`, so it is wider. Without episodes it is [0, 1].
RateInterval ClopperPearsonInterval(int n_success, int n, double confidence = 0.95);

}  // namespace dp_bench::compare
