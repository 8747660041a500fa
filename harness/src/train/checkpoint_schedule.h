// Decides when a training saves a checkpoint, under which names, and when it ends early.
// CheckpointWriter writes the checkpoints.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "run/top_k.h"
#include "train/checkpoint_writer.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace dp_bench::train {

/// Ends a training when its monitored metric stops improving.
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

class CheckpointSchedule {
 public:
  /// `snapshot` is WorkspaceParts::snapshot; it may be null.
  CheckpointSchedule(const TrainingConfig& training, const CheckpointConfig& checkpoint,
                     std::atomic<bool>* snapshot);

  /// Records the metrics at the end of `state.epoch`; with `has_scores`, they include those of
  /// rollouts. Returns what to save once the state is at the next epoch; nothing if no checkpoint
  /// is due. Throws as run::TopK::Offer does.
  std::optional<CheckpointSave> EndEpoch(const std::map<std::string, double>& metrics,
                                         bool has_scores, TrainState* state);

  /// Whether the patience of training.early_stop has run out, with epochs left to train.
  bool IsEarlyStop(const TrainState& state) const;
  std::string EarlyStopReason(const TrainState& state) const;

  /// Whether a snapshot was requested since the last call.
  bool TakeSnapshotRequest() { return snapshot_ != nullptr && snapshot_->exchange(false); }

  /// Name -> metric of the best checkpoints that are kept; part of TrainState.
  const std::map<std::string, double>& topk() const { return topk_.table(); }
  void set_topk(std::map<std::string, double> table) { topk_.set_table(std::move(table)); }

 private:
  bool AreAllMetricsDue(int epoch) const;
  CheckpointSave SaveOfEpoch(int epoch, const std::map<std::string, double>& metrics,
                             bool has_scores);

  TrainingConfig training_;
  CheckpointConfig checkpoint_;
  std::atomic<bool>* snapshot_;
  run::TopK topk_;
  std::optional<EarlyStop> early_stop_;
};

}  // namespace dp_bench::train
