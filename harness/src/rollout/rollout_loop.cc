#include "rollout/rollout_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "control/roll_forward.h"
#include "core/clock.h"
#include "core/errors.h"
#include "rollout/catch_all.h"

namespace dp_bench::rollout {

RolloutLoop::RolloutLoop(const RolloutPlan& plan,
                         std::span<const std::unique_ptr<EpisodeSlot>> slots,
                         std::span<const run::EpisodeJob> jobs, control::ChunkPlanner& planner,
                         int n_workers, bool check_batch_invariance)
    : plan_(plan),
      slots_(slots),
      jobs_(jobs),
      planner_(planner),
      check_batch_invariance_(check_batch_invariance),
      batch_size_(static_cast<std::size_t>(planner.batch_size())),
      chunk_size_(static_cast<std::size_t>(plan.horizons.n_action_steps) *
                  static_cast<std::size_t>(plan.shape_meta.action_dim())),
      obs_(control::MakeObsBatch(plan.shape_meta.obs, planner.batch_size(),
                                 plan.horizons.n_obs_steps)),
      has_more_(!jobs.empty()),
      workers_(std::min(core::ResolveThreadCount(n_workers), static_cast<int>(slots.size()))) {
  actions_.resize(batch_size_ * chunk_size_);
  batch_.reserve(batch_size_);
  rows_.reserve(batch_size_);
  ready_.reserve(slots.size());
  result_.records.reserve(jobs.size());
  for (const MetricSpec& metric : plan.env.metrics) result_.metric_names.push_back(metric.name);
  progress_.n_episodes = static_cast<int>(jobs.size());
}

run::RunResult RolloutLoop::Run(const run::RunHooks& hooks) {
  const auto start = std::chrono::steady_clock::now();
  hooks_ = hooks;
  for (const std::unique_ptr<EpisodeSlot>& slot : slots_) Launch(slot.get());

  int n_reported = 0;
  while (TakeBatch()) {
    if (IsStopped()) break;
    const auto plan_start = std::chrono::steady_clock::now();
    PlanBatch();
    result_.plan_s += core::SecondsSince(plan_start);
    for (EpisodeSlot* slot : batch_) Launch(slot);

    run::RunProgress now;
    {
      const std::lock_guard lock(mutex_);
      now = progress_;
    }
    if (hooks.progress && now.n_done > n_reported) hooks.progress(now);
    n_reported = now.n_done;
  }
  WaitForWorkers();
  result_.is_interrupted = has_more_ || static_cast<std::size_t>(progress_.n_done) < n_started_;
  if (hooks.progress && progress_.n_done > n_reported) hooks.progress(progress_);

  std::ranges::sort(result_.records, {}, &run::EpisodeRecord::episode);
  result_.wall_s = core::SecondsSince(start);
  return std::move(result_);
}

void RolloutLoop::Launch(EpisodeSlot* slot) {
  {
    const std::lock_guard lock(mutex_);
    ++n_in_flight_;
  }
  workers_.Submit([this, slot] { Advance(slot); });
}

void RolloutLoop::Advance(EpisodeSlot* slot) {
  std::exception_ptr failure;
  try {
    RunUntilPlanIsNeeded(slot);
  } catch (...) {
    failure = std::current_exception();  // such as bad_alloc; rethrown by TakeBatch
  }

  const std::lock_guard lock(mutex_);
  if (failure != nullptr) worker_failure_ = failure;
  if (slot->awaits_plan()) ready_.push_back(slot);
  --n_in_flight_;
  if (n_in_flight_ == 0 || ready_.size() >= batch_size_) changed_.notify_one();
}

void RolloutLoop::RunUntilPlanIsNeeded(EpisodeSlot* slot) {
  if (slot->awaits_plan()) slot->ExecuteChunk();
  while (!slot->awaits_plan()) {
    if (slot->has_record()) Deliver(slot->TakeRecord());
    const run::EpisodeJob* job = NextJob();
    if (job == nullptr) return;
    slot->Start(*job);
  }
}

const run::EpisodeJob* RolloutLoop::NextJob() {
  const std::lock_guard lock(mutex_);
  if (!has_more_ || IsStopped()) return nullptr;
  const std::optional<std::size_t> next = NextPlace();
  if (!next) return nullptr;
  ++n_started_;
  return &jobs_[*next];
}

std::optional<std::size_t> RolloutLoop::NextPlace() {
  if (!hooks_.next) {
    has_more_ = n_started_ + 1 < jobs_.size();
    return n_started_;
  }
  const std::optional<std::size_t> next = hooks_.next();
  has_more_ = next.has_value();
  return next;
}

void RolloutLoop::Deliver(run::EpisodeRecord record) {
  if (hooks_.on_episode) hooks_.on_episode(record);
  const std::lock_guard lock(mutex_);
  score_sum_ += record.score;
  result_.n_env_steps += record.n_steps;
  ++progress_.n_done;
  progress_.n_failed += record.failure_reason.has_value() ? 1 : 0;
  progress_.mean_score = score_sum_ / progress_.n_done;
  progress_.n_env_steps = result_.n_env_steps;
  result_.records.push_back(std::move(record));
}

// A full batch costs no more than a partial one, so a partial one is taken only when no worker can
// add to it. False if nothing is left to do.
bool RolloutLoop::TakeBatch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return n_in_flight_ == 0 || ready_.size() >= batch_size_; });
  if (worker_failure_ != nullptr) {
    changed_.wait(lock, [this] { return n_in_flight_ == 0; });
    std::rethrow_exception(worker_failure_);
  }
  const auto n = static_cast<std::ptrdiff_t>(std::min(batch_size_, ready_.size()));
  batch_.assign(ready_.begin(), ready_.begin() + n);
  ready_.erase(ready_.begin(), ready_.begin() + n);
  return n > 0;
}

void RolloutLoop::WaitForWorkers() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return n_in_flight_ == 0; });
}

void RolloutLoop::PlanBatch() {
  rows_.clear();
  for (const EpisodeSlot* slot : batch_) {
    rows_.push_back(slot->plan_row());
    CopyObservations(*slot, rows_.size() - 1);
  }
  control::RepeatFirstRow(rows_.size(), &obs_);

  std::string why;
  if (!TryPlan(rows_, &why)) {
    PlanOneByOne();
    return;
  }
  if (std::exchange(check_batch_invariance_, false)) {
    CheckBatchInvariance(planner_, obs_, rows_, actions_);
  }
  for (std::size_t row = 0; row < batch_.size(); ++row) {
    HandOut(batch_[row], row);
  }
}

// The observations of a slot's next plan become a row of the batch.
void RolloutLoop::CopyObservations(const EpisodeSlot& slot, std::size_t place) {
  slot.history().CopyWindows(place, &obs_);
  const control::ChunkingConfig& chunking = plan_.config.chunking;
  if (chunking.method != control::ChunkingMethod::kStateRollForward) return;
  control::RollForward(chunking.followed, slot.plan_row(), plan_.shape_meta.action_dim(), place,
                       &obs_);
}

bool RolloutLoop::TryPlan(std::span<const control::PlanRow> rows, std::string* why) {
  ++result_.n_plans;
  bool is_planned = true;
  CatchAll([&] { planner_.Plan(obs_, rows, actions_); },
           [&](std::string_view reason) {
             *why = reason;
             is_planned = false;
           });
  return is_planned;
}

// An exception does not say which row caused it, so each row is planned again in a separate batch.
// The other rows get the same actions as before.
void RolloutLoop::PlanOneByOne() {
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    CopyObservations(*batch_[i], 0);
    control::RepeatFirstRow(1, &obs_);
    std::string why;
    if (TryPlan(std::span(rows_).subspan(i, 1), &why)) {
      HandOut(batch_[i], 0);
    } else {
      batch_[i]->Fail(fmt::format("plan at step {}: {}", rows_[i].env_step, why));
    }
  }
}

void RolloutLoop::HandOut(EpisodeSlot* slot, std::size_t row) {
  const auto chunk = std::span<const float>(actions_).subspan(row * chunk_size_, chunk_size_);
  if (const auto fault = control::NonFiniteAction(chunk, plan_.shape_meta.action_dim())) {
    const std::string known = planner_.FaultOf(row);
    slot->Fail(fmt::format("plan at step {}: {}", slot->plan_row().env_step,
                           known.empty() ? *fault : known));
    return;
  }
  std::ranges::copy(chunk, slot->actions().begin());
}

namespace {

// Row i of the new batch is row from[i] of the old one, planned with `rows[i]`.
std::vector<float> PlanRearranged(control::ChunkPlanner& planner, const control::ObsBatch& obs,
                                  std::span<const std::size_t> from,
                                  std::span<const control::PlanRow> rows, std::size_t n_actions) {
  control::ObsBatch rearranged = obs;
  for (auto& [key, array] : rearranged) {
    const std::span<const std::byte> source = obs.find(key)->second.bytes();
    const std::size_t row_bytes = source.size() / from.size();
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::ranges::copy(source.subspan(from[i] * row_bytes, row_bytes),
                        array.bytes().subspan(i * row_bytes, row_bytes).begin());
    }
  }
  std::vector<float> actions(n_actions);
  planner.Plan(rearranged, rows, actions);
  return actions;
}

void RequireSameBits(std::span<const float> wanted, std::span<const float> found, std::size_t row,
                     std::string_view change) {
  if (std::memcmp(wanted.data(), found.data(), wanted.size_bytes()) == 0) return;
  throw NumericError(
      "the policy is not batch-invariant: the actions of row {} changed when {}, so the outcome of "
      "an episode would depend on the other episodes in the batch. Set env_runner.micro_batch=1, "
      "or accept it with env_runner.check_batch_invariance=false",
      row, change);
}

}  // namespace

void CheckBatchInvariance(control::ChunkPlanner& planner, const control::ObsBatch& obs,
                          std::span<const control::PlanRow> rows, std::span<const float> actions) {
  const auto batch_size = static_cast<std::size_t>(planner.batch_size());
  const std::size_t chunk_size = actions.size() / batch_size;

  // reverse order: every row gets another place (padding rows are copies of the first)
  std::vector<std::size_t> from(batch_size);
  std::vector<control::PlanRow> new_rows(batch_size);
  for (std::size_t i = 0; i < batch_size; ++i) {
    from[i] = batch_size - 1 - i;
    new_rows[i] = rows[from[i] < rows.size() ? from[i] : 0];
  }
  const std::vector<float> reversed = PlanRearranged(planner, obs, from, new_rows, actions.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    RequireSameBits(actions.subspan(row * chunk_size, chunk_size),
                    std::span(reversed).subspan(from[row] * chunk_size, chunk_size), row,
                    "the batch was planned in another order");
  }

  // every second row becomes another episode; those in between keep place and content
  for (std::size_t i = 0; i < batch_size; ++i) {
    const bool is_kept = i % 2 == 0;
    from[i] = is_kept ? i : 0;
    new_rows[i] = rows[is_kept && i < rows.size() ? i : 0];
    if (!is_kept) new_rows[i].seed = ~(new_rows[i].seed + i);
  }
  const std::vector<float> mixed = PlanRearranged(planner, obs, from, new_rows, actions.size());
  for (std::size_t row = 0; row < rows.size(); row += 2) {
    RequireSameBits(actions.subspan(row * chunk_size, chunk_size),
                    std::span(mixed).subspan(row * chunk_size, chunk_size), row,
                    "its companions changed");
  }
}

}  // namespace dp_bench::rollout
