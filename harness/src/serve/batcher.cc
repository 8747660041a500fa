#include "serve/batcher.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "core/clock.h"

namespace dp_bench::serve {

Batcher::Batcher(std::shared_ptr<control::ChunkPlanner> planner, const PolicySpec& spec,
                 const BatcherOptions& options)
    : spec_(spec),
      options_(options),
      batch_size_(static_cast<std::size_t>(planner->batch_size())),
      chunk_size_(static_cast<std::size_t>(spec.horizons.n_action_steps) *
                  static_cast<std::size_t>(spec.shape_meta.action_dim())),
      obs_(control::MakeObsBatch(spec.shape_meta.obs, planner->batch_size(),
                                 spec.horizons.n_obs_steps)),
      chunks_(batch_size_ * chunk_size_),
      planner_(std::move(planner)),
      thread_([this] { Loop(); }) {}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool Batcher::HasRoom(std::size_t n_rows) {
  const std::lock_guard lock(mutex_);
  CountArrivals(n_rows);
  return queue_.empty() || queue_.size() + n_rows <= options_.max_queue;
}

void Batcher::Queue(std::vector<Row> rows) {
  const Clock::time_point now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    for (Row& row : rows) queue_.push_back({std::move(row), now});
  }
  changed_.notify_all();
}

void Batcher::Replace(std::shared_ptr<control::ChunkPlanner> planner) {
  const std::lock_guard lock(mutex_);
  std::swap(planner_, planner);
}

void Batcher::CountArrivals(std::size_t n) {
  const auto second = static_cast<std::int64_t>(core::SecondsSince(start_));
  for (std::int64_t empty = std::max(second_ + 1, second - static_cast<std::int64_t>(kSeconds) + 1);
       empty <= second; ++empty) {
    arrivals_[static_cast<std::size_t>(empty) % kSeconds] = 0;
  }
  second_ = second;
  arrivals_[static_cast<std::size_t>(second) % kSeconds] += n;
}

BatcherCounts Batcher::counts() const {
  const std::lock_guard lock(mutex_);
  BatcherCounts counts = counts_;
  counts.n_queued = queue_.size();
  const double passed = core::SecondsSince(start_);
  const double window = std::min(passed, static_cast<double>(kSeconds));
  if (passed - static_cast<double>(second_) < static_cast<double>(kSeconds) && window > 0.0) {
    counts.arrivals_per_s =
        static_cast<double>(std::accumulate(arrivals_.begin(), arrivals_.end(), std::uint64_t{0})) /
        window;
  }
  if (batch_s_ > 0.0) counts.capacity_per_s = static_cast<double>(batch_size_) / batch_s_;
  return counts;
}

void Batcher::Loop() {
  while (true) {
    std::vector<Waiting> batch = TakeBatch();
    if (batch.empty()) return;
    PlanBatch(std::move(batch));
  }
}

// Clients that ask in step come back a moment after their answers. Without waiting for them, the
// first one would go alone and all others would wait for it. The largest of the latest batches
// counts, because an evaluation asks large and small batches in turn.
std::vector<Batcher::Waiting> Batcher::TakeBatch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_ending_ || !queue_.empty(); });
  const std::size_t n_wanted = std::min(std::ranges::max(latest_), batch_size_);
  if (!queue_.empty() && queue_.size() < n_wanted) {
    changed_.wait_until(lock, Clock::now() + options_.max_wait,
                        [&] { return is_ending_ || queue_.size() >= n_wanted; });
  }
  std::vector<Waiting> batch;
  if (is_ending_) return batch;
  while (!queue_.empty() && batch.size() < batch_size_) {
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return batch;
}

void Batcher::PlanBatch(std::vector<Waiting> batch) {
  const Clock::time_point start = Clock::now();
  std::vector<PlanOutcome> outcomes(batch.size());
  rows_.clear();
  for (const Waiting& waiting : batch) {
    waiting.row.history->CopyWindows(rows_.size(), &obs_);
    rows_.push_back(waiting.row.row);
  }
  std::string error;
  if (TryPlan(batch.size(), &error)) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const auto chunk = std::span(chunks_).subspan(i * chunk_size_, chunk_size_);
      outcomes[i].chunk.assign(chunk.begin(), chunk.end());
    }
  } else {
    PlanOneByOne(batch, outcomes);
  }
  const double plan_s = core::SecondsSince(start);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (!outcomes[i].chunk.empty()) {
      const auto fault = control::NonFiniteAction(outcomes[i].chunk, spec_.shape_meta.action_dim());
      if (fault) outcomes[i] = {.error = *fault};
    }
    outcomes[i].queue_s = std::chrono::duration<double>(start - batch[i].since).count();
    outcomes[i].plan_s = plan_s;
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_.n_batches;
    counts_.n_rows += batch.size();
    counts_.plan_s += plan_s;
    batch_s_ = batch_s_ == 0.0 ? plan_s : 0.8 * batch_s_ + 0.2 * plan_s;
    latest_[counts_.n_batches % latest_.size()] = batch.size() + queue_.size();
  }
  for (std::size_t i = 0; i < batch.size(); ++i) batch[i].row.done(std::move(outcomes[i]));
}

bool Batcher::TryPlan(std::size_t n_rows, std::string* error) {
  std::shared_ptr<control::ChunkPlanner> planner;
  {
    const std::lock_guard lock(mutex_);
    planner = planner_;
  }
  control::RepeatFirstRow(n_rows, &obs_);
  try {
    planner->Plan(obs_, std::span(rows_).first(n_rows), chunks_);
    return true;
  } catch (const std::exception& exception) {
    *error = exception.what();
    return false;
  }
}

// The error does not say which row caused it.
void Batcher::PlanOneByOne(std::span<Waiting> batch, std::span<PlanOutcome> outcomes) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i].row.history->CopyWindows(0, &obs_);
    rows_[0] = batch[i].row.row;
    if (TryPlan(1, &outcomes[i].error)) {
      outcomes[i].chunk.assign(chunks_.begin(),
                               chunks_.begin() + static_cast<std::ptrdiff_t>(chunk_size_));
    }
  }
}

}  // namespace dp_bench::serve
