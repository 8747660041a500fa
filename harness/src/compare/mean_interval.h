// How far the mean of a quantity lies from the mean of the few values that were drawn of it.
#pragma once

#include <span>

namespace dp_bench::compare {

struct MeanInterval {
  int n = 0;
  double mean = 0.0;
  double std_dev = 0.0;  // of the values, with n - 1; 0 for one value
  double low = 0.0;
  double high = 0.0;
};

/// Student's interval (1908) for values that scatter about a mean, such as the success rates of
/// several training seeds. At least one value; of one alone the interval is infinite.
MeanInterval StudentInterval(std::span<const double> values, double confidence = 0.95);

}  // namespace dp_bench::compare
