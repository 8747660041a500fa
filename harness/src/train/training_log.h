// The logs of a training. logs.json.txt depends only on the config and is the same after an
// interruption. Event files for TensorBoard also contain the clock and the machine.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/json_log.h"
#include "train/event_writer.h"
#include "train/optimizer.h"
#include "train/train_config.h"
#include "train/train_state.h"
#include "train/train_step.h"

namespace dp_bench::train {

struct TrainingLogParts {
  std::filesystem::path run_folder;  // exists
  LoggingConfig config;
  std::vector<ParameterGroup> groups;  // the trained parameters
  std::function<double()> now;         // [s], increasing
  bool is_written = true;              // false on all ranks except 0: those only time
};

/// Every file system error throws Error{kIo} with the path.
class TrainingLog {
 public:
  /// Continues from `state`: cuts logs.json.txt there, and unless `logging.tensorboard` is off,
  /// begins a file in `tensorboard/` that hides data of earlier files from `state.global_step` on.
  TrainingLog(TrainingLogParts parts, const TrainState& state);

  /// Times the steps for `perf/`. Start it before a step, and call Lap at the end of each phase.
  StepTimer& timer() { return timer_; }

  /// Writes the line of the step that `state` counts as current. Every `logging.every` steps the
  /// same values go to TensorBoard under the same names, except for `train/loss`, `train/lr` and
  /// `train/grad_norm`. `train/param_norm` is there at each such point and in the line every
  /// `logging.ranges_every` steps. `perf/` is only there; its times are means over the steps since
  /// the last point. With accumulated gradients, the point is at the step that
  /// completes the update, because only that step has a gradient norm.
  void AddStep(const TrainState& state, const TrainStepResult& step);

  /// Writes the line of an epoch's last step, with the epoch's metrics; always goes to TensorBoard
  /// too.
  void AddEpochEnd(const TrainState& state, const TrainStepResult& step,
                   const std::map<std::string, double>& metrics);

  /// Images by tag, only for TensorBoard.
  void AddImages(std::int64_t global_step, const std::map<std::string, RgbImage>& images);

  /// Writes everything logged so far to the files and returns the size of logs.json.txt.
  std::int64_t Flush();

  /// Makes everything flushed before the call durable. Another thread may call it while this one
  /// keeps logging.
  void Sync() const;

 private:
  void Add(const TrainState& state, const TrainStepResult& step,
           const std::map<std::string, double>& metrics);
  void AddPerformance(std::int64_t global_step);
  double ParamNorm() const;

  LoggingConfig config_;
  std::vector<ParameterGroup> groups_;
  std::optional<core::JsonLog> json_;  // none if nothing is written
  std::optional<EventWriter> events_;
  StepTimer timer_;

  // since the last point in TensorBoard
  std::int64_t n_steps_ = 0;
  std::int64_t n_samples_ = 0;
  bool is_point_due_ = false;
};

}  // namespace dp_bench::train
