// Logs of trainings that are written by hand, for tests of a diagnosis.
#pragma once

#include <cmath>
#include <functional>

#include "diagnose/log_checks.h"

namespace dp_bench::diagnose {

/// `n_steps` of a loss.
inline LogCurves LossLog(int n_steps, const std::function<double(int step)>& loss) {
  LogCurves curves;
  for (int step = 0; step < n_steps; ++step) {
    curves.train_loss.push_back({.step = static_cast<double>(step), .loss = loss(step)});
    ++curves.n_lines;
  }
  return curves;
}

/// 100 points of a predicted x_0 with this std and mean; x_0 has std 0.5 and mean 0.
inline LogCurves PredictionLog(const std::function<double(double progress)>& std,
                               const std::function<double(double progress)>& mean) {
  LogCurves curves;
  for (int i = 0; i < 100; ++i) {
    const double at = i / 99.0;
    const ValueRange predicted = {.min = mean(at) - 2.0 * std(at),
                                  .max = mean(at) + 2.0 * std(at),
                                  .mean = mean(at),
                                  .std = std(at)};
    curves.ranges["x0"].push_back(
        {.step = 50.0 * i, .range = {.min = -1.0, .max = 1.0, .mean = 0.0, .std = 0.5}});
    curves.ranges["predicted_x0"].push_back({.step = 50.0 * i, .range = predicted});
  }
  return curves;
}

}  // namespace dp_bench::diagnose
