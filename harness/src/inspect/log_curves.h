// What a diagnosis reads from the log of a training. Torch-free.
#pragma once

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::inspect {

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

/// The columns of logs.json.txt that the checks read.
struct LogCurves {
  std::size_t n_lines = 0;
  std::vector<double> steps;       // global_step
  std::vector<double> train_loss;  // of each step
  std::vector<double> val_steps;
  std::vector<double> val_loss;                            // of each step that measured it
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

}  // namespace dp_bench::inspect
