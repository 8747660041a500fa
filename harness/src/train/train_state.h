// Where a training stands: the numbers of a checkpoint's state.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace dp_bench {

struct TrainState {
  std::int64_t global_step = 0;     // batches trained on, over all epochs
  std::int64_t optimizer_step = 0;  // updates of the weights
  int epoch = 0;                    // the running epoch, or the next one between two
  std::int64_t batch_in_epoch = 0;  // batches of it that are done
  double train_loss_sum = 0.0;      // over those batches
  std::int64_t ema_step = 0;
  std::int64_t log_position = 0;  // size of logs.json.txt
  std::map<std::string, double> topk;

  bool operator==(const TrainState&) const = default;

  std::string ToJson() const;

  /// Throws Error{kCheckpoint} naming `origin` when a field is missing or of another type.
  static TrainState FromJson(const std::string& text, const std::string& origin);
};

}  // namespace dp_bench
