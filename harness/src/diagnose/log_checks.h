// What a diagnosis reads from the log of a finished or running training, and the checks of it and
// of the x_0 that a network predicts: hypotheses E and D of a training that does not learn.
// Torch-free.
#pragma once

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "diagnose/finding.h"

namespace dp_bench::diagnose {

/// Of the values of a tensor; NaN if they are unknown or not finite.
struct ValueRange {
  double min = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  double mean = std::numeric_limits<double>::quiet_NaN();
  double std = std::numeric_limits<double>::quiet_NaN();

  bool is_finite() const {
    return std::isfinite(min) && std::isfinite(max) && std::isfinite(mean) && std::isfinite(std);
  }
};

struct LoggedRange {
  double step = 0.0;
  ValueRange range;
};

struct LoggedLoss {
  double step = 0.0;  // global_step
  double loss = 0.0;  // NaN if it is not finite
};

/// The columns of logs.json.txt that the checks read.
struct LogCurves {
  std::size_t n_lines = 0;
  std::vector<LoggedLoss> train_loss;
  std::vector<LoggedLoss> val_loss;
  std::map<std::string, std::vector<LoggedRange>> ranges;  // "x0", "noise", "xt", "t",
                                                           // "predicted_x0"; see train/
                                                           // process_stages.h
  /// Empty without such a tensor.
  std::span<const LoggedRange> RangesOf(const std::string& tensor) const;
};

/// Skips lines that are not JSON (a crash may cut the last one). Throws Error{kIo}.
LogCurves ReadLogCurves(const std::filesystem::path& log);

/// The range over several steps: the outermost values, the mean of means and of deviations. Steps
/// that are not finite are left out.
ValueRange Merged(std::span<const LoggedRange> points);

/// The first or last tenth of the points, at least one.
std::span<const LoggedRange> FirstTenth(std::span<const LoggedRange> points);
std::span<const LoggedRange> LastTenth(std::span<const LoggedRange> points);

/// A stretch at the end of the log over which the loss no longer changes.
struct LossPlateau {
  double first_step = 0.0;
  double share = 0.0;  // of all steps
  double loss = 0.0;   // its mean
};

/// Of the training loss, over the steps where it is finite.
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
  double outlier_share() const {  // of all steps
    return static_cast<double>(n_outliers) / static_cast<double>(n_steps);
  }
  double late_outlier_share() const {  // of the steps after the first tenth
    return static_cast<double>(n_late_outliers) / (0.9 * static_cast<double>(n_steps));
  }
};

/// None without a step whose loss is finite.
std::optional<LossStatistics> StatisticsOf(const LogCurves& curves);

/// "3 of 400 steps (0.8 %), from step 12 to 31, 0 of them after the first tenth", or "none".
std::string OutliersInWords(const LossStatistics& loss);

/// The loss: NaN or Inf, not falling, rising again; a plateau, spikes and overfitting are notes.
/// The predicted x_0 at the end of the log, and whether it drifts: it had the spread of x_0 earlier
/// in the training and lost it.
Findings CheckLog(const LogCurves& curves);

/// D: the x_0 that a trained network predicts is not finite, too narrow, too wide, or shifted.
Finding CheckPredictedX0(const ValueRange& predicted, const ValueRange& x_0);

}  // namespace dp_bench::diagnose
