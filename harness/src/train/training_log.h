// What a training writes down: logs.json.txt, which follows from the config alone and is the same
// after an interruption, and event files for TensorBoard, which also show the clock and the
// machine.
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
#include "train/step_timer.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace dp_bench::train {

struct TrainingLogParts {
  std::filesystem::path run_folder;  // exists
  LoggingConfig config;
  std::string config_text;             // JSON of the whole run
  std::vector<ParameterGroup> groups;  // what is trained
  std::function<double()> now;         // [s], increasing
  bool is_written = true;              // false on all ranks but 0: it only times
};

/// Every fault of the file system throws Error{kIo} with the path.
class TrainingLog {
 public:
  /// Continues where `state` stood: cuts logs.json.txt there, and begins a file in `tensorboard/`
  /// that shadows what earlier ones hold from `state.global_step` on, unless `logging.tensorboard`
  /// is off.
  TrainingLog(TrainingLogParts parts, const TrainState& state);

  /// Times the steps for `perf/`. Start it before a step, and Lap where a phase ends.
  StepTimer& timer() { return timer_; }

  /// The line of the step that `state` counts as running. Each `logging.every` steps the same
  /// values go to TensorBoard under the same names, together with `param_norm` and `perf/`, whose
  /// times are means over the steps since the last such point. With accumulated gradients, the
  /// point is at the step that completes the update: only this one has a gradient norm.
  void AddStep(const TrainState& state, const TrainStepResult& step);

  /// The line of an epoch's last step, with the epoch's metrics; always goes to TensorBoard too.
  void AddEpochEnd(const TrainState& state, const TrainStepResult& step,
                   const std::map<std::string, double>& metrics);

  /// The distributions `weights/<name>` and `gradients/<name>`, as they are between the update of
  /// the weights and ZeroGrad: the new weights, and the gradients that led to them, clipped.
  /// Parameters without a gradient have none. The time that this takes counts to no phase.
  void AddHistograms(std::int64_t global_step);

  /// Pictures by tag, for TensorBoard alone.
  void AddPictures(std::int64_t global_step, const std::map<std::string, RgbImage>& pictures);

  /// Hands everything logged so far to the files and returns the size of logs.json.txt.
  std::int64_t Flush();

  /// Makes what was flushed before the call durable. Another thread may call it while this one goes
  /// on logging.
  void Sync() const;

 private:
  void Add(const TrainState& state, const TrainStepResult& step,
           const std::map<std::string, double>& metrics);
  void AddPerformance(std::int64_t global_step);
  double ParamNorm() const;

  LoggingConfig config_;
  std::vector<ParameterGroup> groups_;
  std::optional<core::JsonLog> json_;  // none where nothing is written
  std::optional<EventWriter> events_;
  StepTimer timer_;

  // since the last point in TensorBoard
  std::int64_t n_steps_ = 0;
  std::int64_t n_samples_ = 0;
  bool is_point_due_ = false;
};

}  // namespace dp_bench::train
