#include "train/checkpoint_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/console.h"
#include "run/store.h"

namespace dp_bench::train {
namespace {

// as for checkpoint.topk.monitor_key, so that both accept the same names
std::string Spelling(std::string name) {
  std::ranges::replace(name, '/', '_');
  return name;
}

}  // namespace

void EarlyStop::Observe(int epoch, const std::map<std::string, double>& metrics, bool is_all_due,
                        EarlyStopState* state) {
  const auto is_monitored = [&](const auto& metric) {
    return Spelling(metric.first) == Spelling(config_.monitor);
  };
  const auto found = std::ranges::find_if(metrics, is_monitored);
  if (found != metrics.end()) {
    if (IsImprovement(found->second, *state)) {
      *state = {.best = found->second, .best_epoch = epoch};
    } else {
      ++state->epochs_without_improvement;
    }
    return;
  }
  if (!is_all_due || has_warned_) return;
  has_warned_ = true;
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  core::LogWarning(
      fmt::format("training.early_stop.monitor is '{}', which is not among the metrics of "
                  "epoch {}: {}. The training will not stop early.",
                  config_.monitor, epoch, fmt::join(names, ", ")));
}

bool EarlyStop::IsImprovement(double value, const EarlyStopState& state) const {
  if (!std::isfinite(value)) return false;
  if (!state.best) return true;
  return config_.is_max ? value > *state.best + config_.min_delta
                        : value < *state.best - config_.min_delta;
}

std::string EarlyStop::Reason(const EarlyStopState& state) const {
  const std::string best = state.best ? fmt::format("has not improved on {:.6g} of epoch {}",
                                                    *state.best, state.best_epoch)
                                      : "had no finite value";
  const int n = state.epochs_without_improvement;
  return fmt::format("{} {} for {} {} that measured it", config_.monitor, best, n,
                     n == 1 ? "epoch" : "epochs");
}

CheckpointSchedule::CheckpointSchedule(const TrainingConfig& training,
                                       const CheckpointConfig& checkpoint,
                                       std::atomic<bool>* snapshot)
    : training_(training),
      checkpoint_(checkpoint),
      snapshot_(snapshot),
      topk_(checkpoint.topk),
      early_stop_(training.early_stop) {}

std::optional<CheckpointSave> CheckpointSchedule::EndEpoch(
    const std::map<std::string, double>& metrics, bool has_scores, TrainState* state) {
  const int epoch = state->epoch;
  if (early_stop_) {
    early_stop_->Observe(epoch, metrics, AreAllMetricsDue(epoch), &state->early_stop);
  }
  const bool is_due = training_.IsDue(training_.checkpoint_every, epoch) ||
                      training_.IsDue(checkpoint_.keep_every, epoch) || has_scores ||
                      epoch + 1 == training_.num_epochs || IsEarlyStop(*state);
  if (!is_due) return std::nullopt;
  return SaveOfEpoch(epoch, metrics, has_scores);
}

CheckpointSave CheckpointSchedule::SaveOfEpoch(int epoch,
                                               const std::map<std::string, double>& metrics,
                                               bool has_scores) {
  CheckpointSave save = {.is_latest = checkpoint_.save_last_ckpt};
  if (training_.IsDue(checkpoint_.keep_every, epoch)) save.kept = run::EpochName(epoch);
  // with all metrics at hand, a missing one is a wrong name
  const bool must_be_ranked = has_scores && AreAllMetricsDue(epoch);
  if (must_be_ranked || topk_.IsMonitored(metrics)) {
    if (const auto best = topk_.Offer(epoch, metrics)) {
      save.best = best->save;
      save.remove = best->remove;
    }
  } else if (checkpoint_.topk.k > 0 && epoch == 0 && AreAllMetricsDue(epoch)) {
    core::LogWarning(
        fmt::format("checkpoint.topk.monitor_key '{}' is not measured in this training: no "
                    "best checkpoints are kept",
                    checkpoint_.topk.monitor_key));
  }
  return save;
}

bool CheckpointSchedule::AreAllMetricsDue(int epoch) const {
  const auto is_due = [&](int every) { return every == 0 || training_.IsDue(every, epoch); };
  return is_due(training_.rollout_every) && is_due(training_.val_every) &&
         is_due(training_.sample_every);
}

bool CheckpointSchedule::IsEarlyStop(const TrainState& state) const {
  return early_stop_ && state.epoch < training_.num_epochs && early_stop_->IsOver(state.early_stop);
}

std::string CheckpointSchedule::EarlyStopReason(const TrainState& state) const {
  return early_stop_->Reason(state.early_stop);
}

}  // namespace dp_bench::train
