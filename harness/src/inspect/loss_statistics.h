// The course of the loss over a whole log in numbers. Torch-free.
#pragma once

#include <cstddef>
#include <optional>

#include "inspect/log_curves.h"

namespace dp_bench::inspect {

/// A stretch at the end of the log over which the loss no longer changes.
struct LossPlateau {
  double first_step = 0.0;
  double share = 0.0;  // of all steps
  double loss = 0.0;   // its mean
};

/// Over the steps whose loss is finite.
struct LossStatistics {
  std::size_t n_steps = 0;
  std::size_t n_not_finite = 0;
  double lowest = 0.0;
  double highest = 0.0;
  double start = 0.0;  // mean of the first ten steps
  double end = 0.0;    // mean of the last ten steps
  // more than three times the median of their tenth of the log
  std::size_t n_outliers = 0;
  std::size_t n_late_outliers = 0;  // after the first tenth
  double first_outlier = 0.0;       // step
  double last_outlier = 0.0;
  std::optional<LossPlateau> plateau;

  double fall() const { return 1.0 - end / start; }
  double outlier_share() const;       // of all steps
  double late_outlier_share() const;  // of the steps after the first tenth
};

/// None without a step whose loss is finite.
std::optional<LossStatistics> StatisticsOf(const LogCurves& curves);

/// "3 of 400 steps (0.8 %), from step 12 to 31, 0 of them after the first tenth", or "none".
std::string OutliersInWords(const LossStatistics& loss);

}  // namespace dp_bench::inspect
