// How far the true mean of a quantity may be from the mean of a few observed values.
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
/// several training seeds. Needs at least one value; the interval of a single value is infinite.
///
/// Values that happen to be equal do not show that there is no spread: `std_dev_if_equal` is used
/// for the interval then, if something else tells how much they scatter. `std_dev` stays 0.
MeanInterval StudentInterval(std::span<const double> values, double confidence = 0.95,
                             double std_dev_if_equal = 0.0);

/// Welch's interval (1947) for the difference of two means, b minus a, of independent values. Needs
/// two values of each; the interval is infinite otherwise. `n` is the smaller number of values,
/// `std_dev` the standard error of the difference.
MeanInterval WelchInterval(std::span<const double> a, std::span<const double> b,
                           double confidence = 0.95);

}  // namespace dp_bench::compare
