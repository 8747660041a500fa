// Where a training stands: the numbers of a checkpoint's state.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dp_bench::train {

/// How the metric of training.early_stop went so far.
struct EarlyStopState {
  std::optional<double> best = std::nullopt;  // none before its first finite value
  int best_epoch = 0;
  int epochs_without_improvement = 0;  // since then, of those that had the metric

  bool operator==(const EarlyStopState&) const = default;
};

/// Where the gradient scaler of float16 stands, see grad_scaler.h.
struct GradScalerState {
  float scale = 65536.0F;           // of the next loss
  std::int64_t growth_tracker = 0;  // updates since the scale changed or one was left out
  int skips_in_a_row = 0;           // updates left out since the last one that was done

  bool operator==(const GradScalerState&) const = default;
};

/// What a training step found.
struct TrainStepResult {
  double loss = 0.0;
  std::map<std::string, double> parts;
  std::optional<double> grad_norm;  // of the optimiser step that followed
  double lr = 0.0;
  std::int64_t n_rows = 0;  // samples of its batch

  bool operator==(const TrainStepResult&) const = default;
};

struct TrainState {
  std::int64_t global_step = 0;     // batches trained on, over all epochs
  std::int64_t optimizer_step = 0;  // updates of the weights
  int epoch = 0;                    // the running epoch, or the next one between two
  std::int64_t batch_in_epoch = 0;  // batches of it that are done
  double train_loss_sum = 0.0;      // over those batches
  std::int64_t ema_step = 0;
  std::int64_t log_position = 0;  // size of logs.json.txt
  std::map<std::string, double> topk;
  // what else belongs to this save: the names of the same checkpoint beside `latest`, and the one
  // that goes; so that a save which a crash cut short is completed on resuming
  std::vector<std::string> saved_as;
  std::optional<std::string> replaced = std::nullopt;
  EarlyStopState early_stop;  // untouched without training.early_stop
  std::optional<GradScalerState> grad_scaler = std::nullopt;  // with training.mixed_precision=fp16
  // the running epoch's last one when all its batches are done, but not its evaluation, which was
  // interrupted; `global_step` and `batch_in_epoch` do not count it yet
  std::optional<TrainStepResult> last_step = std::nullopt;

  bool operator==(const TrainState&) const = default;

  std::string ToJson() const;

  /// Throws Error{kCheckpoint} naming `origin` when a field is missing or of another type.
  /// "early_stop" may be missing: it is written once the metric had a value. So may "saved_as",
  /// "replaced" and "last_step".
  static TrainState FromJson(const std::string& text, const std::string& origin);
};

}  // namespace dp_bench::train
