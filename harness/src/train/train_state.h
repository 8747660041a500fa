// The progress of a training: the numbers in a checkpoint's state.json.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dp_bench::train {

/// The state of the float16 gradient scaler, see optimizer.h.
struct GradScalerState {
  float scale = 65536.0F;           // of the next loss
  std::int64_t growth_tracker = 0;  // updates since the scale changed or an update was skipped
  int skips_in_a_row = 0;           // updates skipped since the last one that was made

  bool operator==(const GradScalerState&) const = default;
};

/// The result of a training step.
struct TrainStepResult {
  double loss = 0.0;
  std::map<std::string, double> parts;
  std::optional<double> grad_norm;  // of the optimizer step that followed
  double lr = 0.0;
  std::int64_t n_rows = 0;  // samples in its batch

  bool operator==(const TrainStepResult&) const = default;
};

struct TrainState {
  std::int64_t global_step = 0;     // batches trained on, over all epochs
  std::int64_t optimizer_step = 0;  // updates of the weights, in windows of today's length
  int epoch = 0;                    // the current epoch, or between two epochs the next one
  std::int64_t batch_in_epoch = 0;  // finished batches of that epoch
  double train_loss_sum = 0.0;      // over those batches
  std::int64_t ema_step = 0;
  std::optional<double> seconds = std::nullopt;  // of the training, with training.max_minutes
  std::int64_t log_position = 0;                 // size of logs.json.txt
  std::optional<std::string> dataset_sha256 = std::nullopt;  // of its episodes and actions
  std::map<std::string, double> topk;
  // the rest of this save, so that resuming completes a save that a crash cut short: the names of
  // the same checkpoint next to `latest`, and the checkpoint that this save removes
  std::vector<std::string> saved_as;
  std::optional<std::string> replaced = std::nullopt;
  std::optional<GradScalerState> grad_scaler = std::nullopt;  // with training.mixed_precision=fp16
  // the last step of the current epoch, if all its batches are done but its evaluation was
  // interrupted; `global_step` and `batch_in_epoch` do not count it yet
  std::optional<TrainStepResult> last_step = std::nullopt;

  bool operator==(const TrainState&) const = default;

  std::string ToJson() const;

  /// Throws Error{kCheckpoint} naming `origin` if a field is missing or has another type.
  /// "seconds", "dataset_sha256", "saved_as", "replaced" and "last_step" may be missing.
  static TrainState FromJson(const std::string& text, const std::string& origin);
};

}  // namespace dp_bench::train
