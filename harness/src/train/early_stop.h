// Ends a training when its monitored metric stops improving.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "dp_bench/config.h"
#include "train/train_state.h"

namespace dp_bench::train {

/// "training.early_stop". Names and meanings are those of Keras' EarlyStopping.
struct EarlyStopConfig {
  std::string monitor = "val_loss";
  bool is_max = false;
  int patience = 10;
  double min_delta = 0.0;

  static EarlyStopConfig FromConfig(const Config& config);
};

class EarlyStop {
 public:
  explicit EarlyStop(EarlyStopConfig config) : config_(std::move(config)) {}

  /// Records the metrics at the end of `epoch`. Without the monitored one nothing changes. A value
  /// that is not finite is no improvement. Warns once if the metric is missing although
  /// `is_all_due`, which means that every metric was due at this epoch.
  void Observe(int epoch, const std::map<std::string, double>& metrics, bool is_all_due,
               EarlyStopState* state);

  /// Whether the metric has run out of patience.
  bool IsOver(const EarlyStopState& state) const {
    return state.epochs_without_improvement >= config_.patience;
  }

  /// "val_loss has not improved on 0.123 of epoch 7 for 10 epochs that measured it".
  std::string Reason(const EarlyStopState& state) const;

 private:
  bool IsImprovement(double value, const EarlyStopState& state) const;

  EarlyStopConfig config_;
  bool has_warned_ = false;
};

}  // namespace dp_bench::train
