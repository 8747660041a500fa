// Decides when a training saves a checkpoint and under which names. CheckpointWriter writes the
// checkpoints.
#pragma once

#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "run/checkpoint.h"
#include "train/train_config.h"

namespace dp_bench::train {

/// The actions of one save in the `checkpoints` folder, in this order.
struct CheckpointSave {
  std::optional<std::string> best = std::nullopt;  // writes under this name
  std::optional<std::string> kept = std::nullopt;  // also writes under this name, and keeps it
  bool is_latest = true;                           // writes as `latest`
  std::optional<std::string> remove = std::nullopt;
};

/// At most one save is in flight: the next one waits for it. So there is never more than one copy
/// of the training's state, even on a slow disk. The copy's memory is reused for the next save,
/// which then costs one pass over the tensors and no page faults.
///
/// Call it from one thread. An error of the writing thread is thrown once, by the next call;
/// complete checkpoints on disk are kept.
class CheckpointWriter {
 public:
  /// `store` must outlive the writer, and its folder must not be changed by others while a save is
  /// in flight. `sync_log` makes the part of the log that the saved state refers to durable. The
  /// writing thread calls it before any file of the checkpoint. Without `is_background`, Save
  /// returns when everything is written, and keeps no memory.
  CheckpointWriter(run::CheckpointStore& store, bool is_background, std::function<void()> sync_log);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Waits for the save in flight. An error that was not thrown yet becomes a warning; call Finish
  /// to get it as an exception.
  ~CheckpointWriter();

  /// Waits for the save in flight, calls `copy` and returns; the rest happens in the background.
  /// `copy` gets the contents of the previous save, or empty ones. It replaces all of them with
  /// copies that share no memory with the training.
  void Save(CheckpointSave save, const std::function<void(run::CheckpointContents*)>& copy);

  /// Throws the error of a finished save; does not wait.
  void ThrowIfFailed();

  /// Waits for the save in flight.
  void Finish();

 private:
  void Write(const CheckpointSave& save);

  run::CheckpointStore& store_;
  bool is_background_;
  std::function<void()> sync_log_;
  run::CheckpointContents contents_;  // belongs to the writing thread while a save is in flight
  std::future<void> in_flight_;
};

/// The k best checkpoints by a monitored metric, as in diffusion_policy's TopKCheckpointManager
/// (common/checkpoint_util.py). It only decides names.
class TopK {
 public:
  explicit TopK(TopKConfig config) : config_(std::move(config)) {}

  bool IsMonitored(const std::map<std::string, double>& metrics) const;

  /// If the checkpoint is among the k best: `best`, "epoch=0100-test_mean_score=0.871", and
  /// `remove`, which may go once that and the table are on disk. Of equal ones, the earliest epoch
  /// is removed first. If the monitored metric is missing, throws Error{kConfig} naming those that
  /// exist; if it is not finite, Error{kNumeric}.
  CheckpointSave Offer(int epoch, const std::map<std::string, double>& metrics);

  /// Name -> metric of the kept checkpoints; saved in the checkpoint's state.
  const std::map<std::string, double>& table() const { return table_; }

  /// Takes the entries of the monitored metric. A resume may monitor another one: the checkpoints
  /// of the first are then kept for good.
  void set_table(std::map<std::string, double> table);

 private:
  TopKConfig config_;
  std::map<std::string, double> table_;
};

class CheckpointSchedule {
 public:
  CheckpointSchedule(const TrainingConfig& training, const CheckpointConfig& checkpoint);

  /// Whether this metric ranks the checkpoints.
  bool IsRankedBy(const std::string& metric) const;

  /// Given the metrics at the end of an epoch, which with `has_scores` include those of rollouts:
  /// what to save once the state is at the next epoch; nothing if no checkpoint is due. Throws as
  /// TopK::Offer does.
  std::optional<CheckpointSave> EndEpoch(const std::map<std::string, double>& metrics,
                                         bool has_scores, int epoch);

  /// Name -> metric of the best checkpoints that are kept; part of TrainState.
  const std::map<std::string, double>& topk() const { return topk_.table(); }
  void set_topk(std::map<std::string, double> table) { topk_.set_table(std::move(table)); }

 private:
  bool AreAllMetricsDue(int epoch) const;

  TrainingConfig training_;
  CheckpointConfig checkpoint_;
  TopK topk_;
};

}  // namespace dp_bench::train
