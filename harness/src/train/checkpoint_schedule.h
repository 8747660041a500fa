// Decides when a training saves a checkpoint, under which names, and when it ends early.
// CheckpointWriter writes the checkpoints.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string>

#include "run/top_k.h"
#include "train/checkpoint_writer.h"
#include "train/early_stop.h"
#include "train/train_config.h"
#include "train/train_state.h"

namespace dp_bench::train {

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
