#include "train/checkpoint_schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <vector>

#include "core/console.h"
#include "core/errors.h"

namespace dp_bench::train {

CheckpointWriter::CheckpointWriter(run::CheckpointStore& store, bool is_background,
                                   std::function<void()> sync_log)
    : store_(store), is_background_(is_background), sync_log_(std::move(sync_log)) {}

CheckpointWriter::~CheckpointWriter() {
  try {
    Finish();
  } catch (const std::exception& error) {
    core::LogWarning(error.what());
  }
}

void CheckpointWriter::Save(CheckpointSave save,
                            const std::function<void(run::CheckpointContents*)>& copy) {
  Finish();
  copy(&contents_);
  if (is_background_) {
    in_flight_ = std::async(std::launch::async, [this, save = std::move(save)] { Write(save); });
  } else {
    Write(save);
    contents_ = {};
  }
}

void CheckpointWriter::ThrowIfFailed() {
  const bool has_ended = in_flight_.valid() &&
                         in_flight_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  if (has_ended) in_flight_.get();
}

void CheckpointWriter::Finish() {
  if (in_flight_.valid()) in_flight_.get();
}

void CheckpointWriter::Write(const CheckpointSave& save) {
  try {
    sync_log_();
    // after any crash, each checkpoint in the newest table exists
    if (save.best) store_.Save(*save.best, contents_);
    if (save.kept) store_.Save(*save.kept, contents_);
    if (save.is_latest) store_.Save(run::kLatest, contents_);
    // without save_last_ckpt there is a `latest` of an interruption, which is older now
    if (!save.is_latest && (save.best || save.kept)) store_.Remove(run::kLatest);
    if (save.remove) store_.Remove(*save.remove);
  } catch (Error& error) {
    // the training may have advanced far since it started this save
    error.AddContext(
        fmt::format("while a checkpoint was saved in '{}'; the complete ones there "
                    "are kept, --resume continues from the last of them",
                    store_.folder().string()));
    throw;
  }
}

namespace {

// Of a metric in the name of a folder, which cannot have slashes; both spellings name it in a
// config.
std::string Spelling(std::string name) {
  std::ranges::replace(name, '/', '_');
  return name;
}

double FindMetric(const std::string& wanted, const std::map<std::string, double>& metrics) {
  std::vector<std::string> names;
  for (const auto& [key, value] : metrics) {
    if (Spelling(key) == Spelling(wanted)) {
      if (std::isfinite(value)) return value;
      throw NumericError("the metric '{}' is {}: no checkpoint can be ranked by it", key, value);
    }
    names.push_back(key);
  }
  throw ConfigError("checkpoint.topk.monitor_key '{}' is not among the metrics: {}", wanted,
                    fmt::join(names, ", "));
}

}  // namespace

bool TopK::IsMonitored(const std::map<std::string, double>& metrics) const {
  return std::ranges::any_of(metrics, [&](const auto& metric) {
    return Spelling(metric.first) == Spelling(config_.monitor_key);
  });
}

void TopK::set_table(std::map<std::string, double> table) {
  const std::string mark = "-" + Spelling(config_.monitor_key) + "=";
  std::erase_if(table,
                [&mark](const auto& kept) { return kept.first.find(mark) == std::string::npos; });
  table_ = std::move(table);
}

CheckpointSave TopK::Offer(int epoch, const std::map<std::string, double>& metrics) {
  if (config_.k == 0) return {};
  const double value = FindMetric(config_.monitor_key, metrics);
  CheckpointSave save = {.best = fmt::format("{}-{}={:.3f}", run::EpochName(epoch),
                                             Spelling(config_.monitor_key), value)};

  if (table_.size() >= static_cast<std::size_t>(config_.k)) {
    // names begin with the epoch, so the first of equal values is the earliest
    const auto worst = std::ranges::min_element(
        table_, {}, [&](const auto& item) { return config_.is_max ? item.second : -item.second; });
    const bool is_better = config_.is_max ? value > worst->second : value < worst->second;
    if (!is_better) return {};
    save.remove = worst->first;
    table_.erase(worst);
  }
  table_[*save.best] = value;
  return save;
}

CheckpointSchedule::CheckpointSchedule(const TrainingConfig& training,
                                       const CheckpointConfig& checkpoint)
    : training_(training), checkpoint_(checkpoint), topk_(checkpoint.topk) {}

std::optional<CheckpointSave> CheckpointSchedule::EndEpoch(
    const std::map<std::string, double>& metrics, bool has_scores, int epoch) {
  const bool is_kept = training_.IsDue(checkpoint_.keep_every, epoch);
  const bool is_due = training_.IsDue(training_.checkpoint_every, epoch) || is_kept || has_scores ||
                      epoch + 1 == training_.num_epochs;
  if (!is_due) return std::nullopt;
  CheckpointSave save;
  // with all metrics at hand, a missing one is a wrong name
  const bool must_be_ranked = has_scores && AreAllMetricsDue(epoch);
  if (must_be_ranked || topk_.IsMonitored(metrics)) {
    save = topk_.Offer(epoch, metrics);
  } else if (checkpoint_.topk.k > 0 && epoch == 0 && AreAllMetricsDue(epoch)) {
    core::LogWarning(
        "checkpoint.topk.monitor_key '{}' is not measured in this training: no best checkpoints "
        "are kept",
        checkpoint_.topk.monitor_key);
  }
  save.is_latest = checkpoint_.save_last_ckpt;
  if (is_kept) save.kept = run::EpochName(epoch);
  return save;
}

bool CheckpointSchedule::IsRankedBy(const std::string& metric) const {
  return checkpoint_.topk.k > 0 && topk_.IsMonitored({{metric, 0.0}});
}

bool CheckpointSchedule::AreAllMetricsDue(int epoch) const {
  const auto is_due = [&](int every) { return every == 0 || training_.IsDue(every, epoch); };
  return is_due(training_.rollout_every) && is_due(training_.val_every) &&
         is_due(training_.sample_every);
}

}  // namespace dp_bench::train
