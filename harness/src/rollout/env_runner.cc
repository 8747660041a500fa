#include "rollout/env_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "control/control_loop.h"
#include "control/roll_forward.h"
#include "core/clock.h"
#include "core/copy_bytes.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/thread_pool.h"
#include "data/replay_writer.h"
#include "rollout/catch_all.h"
#include "rollout/shape_match.h"
#include "run/episode_log.h"

namespace dp_bench::rollout {
namespace {

// Checks whether a row of the policy's batch depends on the other rows. The outcome of an episode
// must not, but the low bits of a matrix product often do. The check uses real observations, before
// any outcome counts.

// Row i of the new batch is row from[i] of the old one, planned with `rows[i]`.
std::vector<float> PlanRearranged(control::ChunkPlanner& planner, const control::ObsBatch& obs,
                                  std::span<const std::size_t> from,
                                  std::span<const control::PlanRow> rows, std::size_t n_actions) {
  control::ObsBatch rearranged = obs;
  for (auto& [key, array] : rearranged) {
    const std::span<const std::byte> source = obs.find(key)->second.bytes();
    const std::size_t row_bytes = source.size() / from.size();
    for (std::size_t i = 0; i < from.size(); ++i) {
      core::CopyBytes(source.subspan(from[i] * row_bytes, row_bytes),
                      array.bytes().subspan(i * row_bytes));
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

// Plans `obs` again with its rows in reverse order, and again with every second row replaced.
// Throws Error{kNumeric} unless the actions of each row have the same bits as in `actions`, the
// result of planner.Plan(obs, rows, ...).
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

// A slot is in one place at a time: with a worker (in flight), in the ready queue, or in the batch
// being planned. The mutex guards the hand-over; the current holder of a slot uses it without a
// lock.
class RolloutLoop {
 public:
  // Runs `jobs` in this order in `slots`, which are idle. All arguments must outlive the loop.
  RolloutLoop(const RolloutPlan& plan, std::span<const std::unique_ptr<EpisodeSlot>> slots,
              std::span<const run::EpisodeJob> jobs, control::ChunkPlanner& planner, int n_workers,
              bool check_batch_invariance)
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

  // Returns when every job has its record, or soon after `hooks.stop` is set, leaving slots in the
  // middle of episodes. Called once.
  run::RunResult Run(const run::RunHooks& hooks) {
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

 private:
  // on the workers
  void Launch(EpisodeSlot* slot) {
    {
      const std::lock_guard lock(mutex_);
      ++n_in_flight_;
    }
    workers_.Submit([this, slot] { Advance(slot); });
  }

  void Advance(EpisodeSlot* slot) {
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

  void RunUntilPlanIsNeeded(EpisodeSlot* slot) {
    if (slot->awaits_plan()) slot->ExecuteChunk();
    while (!slot->awaits_plan()) {
      if (slot->has_record()) Deliver(slot->TakeRecord());
      const run::EpisodeJob* job = NextJob();
      if (job == nullptr) return;
      slot->Start(*job);
    }
  }

  const run::EpisodeJob* NextJob() {
    const std::lock_guard lock(mutex_);
    if (!has_more_ || IsStopped()) return nullptr;
    const std::optional<std::size_t> next = NextPlace();
    if (!next) return nullptr;
    ++n_started_;
    return &jobs_[*next];
  }

  std::optional<std::size_t> NextPlace() {
    if (!hooks_.next) {
      has_more_ = n_started_ + 1 < jobs_.size();
      return n_started_;
    }
    const std::optional<std::size_t> next = hooks_.next();
    has_more_ = next.has_value();
    return next;
  }

  void Deliver(run::EpisodeRecord record) {
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

  // on the calling thread
  // A full batch costs no more than a partial one, so a partial one is taken only when no worker
  // can add to it. False if nothing is left to do.
  bool TakeBatch() {
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

  bool IsStopped() const { return hooks_.stop != nullptr && hooks_.stop->load(); }

  void WaitForWorkers() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return n_in_flight_ == 0; });
  }

  void PlanBatch() {
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
      CheckBatchInvariance(planner_.Unrecorded(), obs_, rows_, actions_);
    }
    for (std::size_t row = 0; row < batch_.size(); ++row) {
      HandOut(batch_[row], row);
    }
  }

  // The observations of a slot's next plan become a row of the batch.
  void CopyObservations(const EpisodeSlot& slot, std::size_t place) {
    slot.history().CopyWindows(place, &obs_);
    const control::ChunkingConfig& chunking = plan_.config.chunking;
    if (chunking.method != control::ChunkingMethod::kStateRollForward) return;
    control::RollForward(chunking.followed, slot.plan_row(), plan_.shape_meta.action_dim(), place,
                         &obs_);
  }

  bool TryPlan(std::span<const control::PlanRow> rows, std::string* why) {
    ++result_.n_plans;
    bool is_planned = true;
    CatchAll([&] { planner_.Plan(obs_, rows, actions_); },
             [&](std::string_view reason) {
               *why = reason;
               is_planned = false;
             });
    return is_planned;
  }

  // An exception does not say which row caused it, so each row is planned again in a separate
  // batch. The other rows get the same actions as before.
  void PlanOneByOne() {
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

  void HandOut(EpisodeSlot* slot, std::size_t row) {
    const auto chunk = std::span<const float>(actions_).subspan(row * chunk_size_, chunk_size_);
    if (const auto fault = control::NonFiniteAction(chunk, plan_.shape_meta.action_dim())) {
      const std::string known = planner_.FaultOf(row);
      slot->Fail(fmt::format("plan at step {}: {}", slot->plan_row().env_step,
                             known.empty() ? *fault : known));
      return;
    }
    std::ranges::copy(chunk, slot->actions().begin());
  }

  const RolloutPlan& plan_;
  std::span<const std::unique_ptr<EpisodeSlot>> slots_;
  std::span<const run::EpisodeJob> jobs_;
  control::ChunkPlanner& planner_;
  bool check_batch_invariance_;
  std::size_t batch_size_;  // M
  std::size_t chunk_size_;  // Ta * Da
  std::vector<EpisodeSlot*> batch_;
  std::vector<control::PlanRow> rows_;
  control::ObsBatch obs_;
  std::vector<float> actions_;  // [M, Ta, Da]

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EpisodeSlot*> ready_;  // first in, first out
  int n_in_flight_ = 0;
  std::size_t n_started_ = 0;
  bool has_more_;  // episodes that no one has started
  std::exception_ptr worker_failure_;
  run::RunHooks hooks_;
  run::RunResult result_;
  run::RunProgress progress_;
  double score_sum_ = 0.0;

  core::ThreadPool workers_;  // last: joined before the members it uses are destroyed
};

// The control steps that a plan takes, or half of the plans at most.
int DelaySteps(const control::EnvRunnerConfig& config, double control_hz) {
  const control::LatencyModel& latency = config.chunking.latency;
  if (latency.distribution == control::LatencyDistribution::kMeasured &&
      latency.samples_ms.empty()) {
    throw ConfigError(
        "env_runner.chunking.latency.file: only `dp_bench eval` reads it; give the times as "
        "env_runner.chunking.latency.samples_ms");
  }
  if (latency.is_random()) return control::ControlSteps(latency.MedianMs(), control_hz);
  if (config.realtime == 0.0) return config.chunking.delay;
  if (config.realtime_latency_ms == 0.0) {
    throw ConfigError(
        "env_runner.realtime needs env_runner.realtime_latency_ms, the time that a plan takes; "
        "only `dp_bench eval` measures it if it is 0");
  }
  return control::ControlSteps(config.realtime_latency_ms * config.realtime, control_hz);
}

// Hands out the env that the spec was read from first, because creating an env may mean starting a
// process and compiling a scene.
EnvFactory StartingWith(std::unique_ptr<Env> env, EnvFactory factory) {
  struct First {
    std::mutex mutex;
    std::unique_ptr<Env> env;
  };
  const auto first = std::make_shared<First>();
  first->env = std::move(env);
  return [first, factory = std::move(factory)] {
    {
      const std::lock_guard lock(first->mutex);
      if (first->env != nullptr) return std::move(first->env);
    }
    return factory();
  };
}

std::optional<std::size_t> FindScoreMetric(const control::EnvRunnerConfig& config,
                                           const EnvSpec& spec) {
  if (!config.score_metric) return std::nullopt;
  std::vector<std::string> names;
  for (const MetricSpec& metric : spec.metrics) {
    if (metric.name == *config.score_metric) return names.size();
    names.push_back(metric.name);
  }
  throw ConfigError("env_runner.score_metric: expected a metric of the env ({}), found '{}'",
                    names.empty() ? "it has none" : fmt::format("{}", fmt::join(names, ", ")),
                    *config.score_metric);
}

void AppendSplit(const std::string& split, int n, std::uint64_t start_seed, int n_videos,
                 std::vector<run::EpisodeJob>* jobs) {
  for (int i = 0; i < n; ++i) {
    jobs->push_back({.episode = static_cast<int>(jobs->size()),
                     .split = split,
                     .seed = start_seed + static_cast<std::uint64_t>(i),
                     .has_video = i < n_videos});
  }
}

// All but the records.
void VisitResult(const core::JsonFields& fields, run::RunResult* c) {
  fields("metric_names", &c->metric_names);
  fields("n_env_steps", &c->n_env_steps);
  fields("n_plans", &c->n_plans);
  fields("plan_s", &c->plan_s);
  fields("wall_s", &c->wall_s);
  fields("is_interrupted", &c->is_interrupted);
}

// A result as bytes; exact, but without the records' wall times.
std::string EncodeResult(const run::RunResult& result) {
  nlohmann::json json = core::ToFields(result, VisitResult);
  json["rows"] = run::EpisodesJsonl(result);
  std::string bytes;
  nlohmann::json::to_cbor(json, bytes);
  return bytes;
}

run::RunResult DecodeResult(const std::string& bytes) {
  constexpr std::string_view kOrigin = "the episodes of a rank";
  const auto json = nlohmann::json::from_cbor(bytes);
  const core::JsonView view(json, kOrigin);
  auto result = core::FromFields<run::RunResult>(view, VisitResult);
  result.records =
      run::ParseEpisodes(view.Get<std::string>("rows"), std::string(kOrigin), result.metric_names);
  return result;
}

void Add(run::RunResult of_rank, run::RunResult* sum) {
  std::ranges::move(of_rank.records, std::back_inserter(sum->records));
  sum->metric_names = std::move(of_rank.metric_names);
  sum->n_env_steps += of_rank.n_env_steps;
  sum->n_plans += of_rank.n_plans;
  sum->plan_s = std::max(sum->plan_s, of_rank.plan_s);
  sum->wall_s = std::max(sum->wall_s, of_rank.wall_s);
  sum->is_interrupted = sum->is_interrupted || of_rank.is_interrupted;
}

}  // namespace

EnvRunner::EnvRunner(const control::EnvRunnerConfig& config, EnvFactory env_factory,
                     const ShapeMeta& shape_meta, const Horizons& horizons,
                     std::filesystem::path output_dir) {
  std::unique_ptr<Env> env = env_factory();
  if (env == nullptr) throw EnvError("no env was created");
  const EnvSpec spec = env->spec();

  const int max_steps = config.max_steps > 0 ? config.max_steps : spec.max_steps;
  if (max_steps < 1) {
    throw EnvError("the env allows {} steps per episode; give env_runner.max_steps", max_steps);
  }
  if (config.chunking.method == control::ChunkingMethod::kStateRollForward) {
    control::RequireFits(config.chunking.followed, shape_meta);
  }
  const int delay = DelaySteps(config, spec.control_hz);
  plan_ = std::make_unique<RolloutPlan>(
      RolloutPlan{.config = config,
                  .env_factory = StartingWith(std::move(env), std::move(env_factory)),
                  .env = spec,
                  .shape_meta = shape_meta,
                  .obs_index_of_env = MatchObsKeys(spec.shape_meta, shape_meta),
                  .horizons = horizons,
                  .max_steps = max_steps,
                  .score_metric = FindScoreMetric(config, spec),
                  .delay = delay,
                  .execute = control::ExecuteSteps(config.chunking, horizons.n_action_steps, delay),
                  .output_dir = std::move(output_dir)});
  AppendSplit("train", config.n_train, config.train_start_seed, config.n_videos, &jobs_);
  AppendSplit("test", config.n_test, config.test_start_seed, config.n_videos, &jobs_);
}

void EnvRunner::SetObsRanges(run::ObsRanges ranges) {
  slots_.clear();  // they use the old ranges
  plan_->obs_ranges = std::move(ranges);
}

void EnvRunner::SetCorrection(std::shared_ptr<const control::CorrectionHead> correction) {
  slots_.clear();  // they do not correct
  plan_->correction = std::move(correction);
}

void EnvRunner::RecordSteps() {
  static_cast<void>(data::ReplayEpisode(data::RecordedKeys(plan_->env)));  // throws
  slots_.clear();                                                          // they do not record
  plan_->records_steps = true;
}

std::vector<std::string> EnvRunner::metric_names() const {
  std::vector<std::string> names;
  for (const MetricSpec& metric : plan_->env.metrics) names.push_back(metric.name);
  return names;
}

const run::EpisodeJob& EnvRunner::JobAt(int episode) const {
  if (episode < 0 || static_cast<std::size_t>(episode) >= jobs_.size()) {
    throw UsageError("there is no episode {}; the seed list has 0 to {}", episode,
                     static_cast<int>(jobs_.size()) - 1);
  }
  return jobs_[static_cast<std::size_t>(episode)];
}

std::optional<control::RecordedObs> EnvRunner::FirstObservation(int episode) const {
  run::EpisodeJob job = JobAt(episode);
  job.has_video = false;
  EpisodeSlot slot(*plan_);
  slot.Start(job);
  if (!slot.awaits_plan()) return std::nullopt;
  control::RecordedObs first = {
      .obs = control::MakeObsBatch(plan_->shape_meta.obs, 1, plan_->horizons.n_obs_steps),
      .row = slot.plan_row()};
  slot.history().CopyWindows(0, &first.obs);
  return first;
}

run::RunResult EnvRunner::Run(control::ChunkPlanner& planner, const run::RunHooks& hooks) {
  std::vector<int> all(jobs_.size());
  std::iota(all.begin(), all.end(), 0);
  return Run(planner, all, hooks);
}

run::RunResult EnvRunner::Run(control::ChunkPlanner& planner, std::span<const int> episodes,
                              const run::RunHooks& hooks) {
  std::vector<run::EpisodeJob> jobs;
  for (const int episode : episodes) jobs.push_back(JobAt(episode));

  // after an exception or an interruption the slots are in the middle of episodes: only those of a
  // good run are kept
  std::vector<std::unique_ptr<EpisodeSlot>> slots = std::move(slots_);
  slots_.clear();
  const control::EnvRunnerConfig& config = plan_->config;
  const int wanted = config.n_envs > 0 ? config.n_envs : 2 * planner.batch_size();
  const std::size_t n_slots = std::min(static_cast<std::size_t>(wanted), jobs.size());
  while (slots.size() < n_slots) slots.push_back(std::make_unique<EpisodeSlot>(*plan_));
  run::RunResult result = RolloutLoop(*plan_, std::span(slots).first(n_slots), jobs, planner,
                                      config.n_workers, config.check_batch_invariance)
                              .Run(hooks);
  if (!result.is_interrupted) slots_ = std::move(slots);
  return result;
}

run::RunResult RunShared(EnvRunner& runner, control::ChunkPlanner& planner,
                         core::Communicator& ranks, std::span<const int> episodes,
                         const run::RunHooks& hooks) {
  if (ranks.size() == 1) return runner.Run(planner, episodes, hooks);
  std::vector<int> share(episodes.begin(), episodes.end());
  if (!hooks.next) {
    share.clear();
    for (auto i = static_cast<std::size_t>(ranks.rank()); i < episodes.size();
         i += static_cast<std::size_t>(ranks.size())) {
      share.push_back(episodes[i]);
    }
  }
  const run::RunResult own = runner.Run(planner, share, hooks);
  run::RunResult all;
  for (const std::string& bytes : ranks.AllGather(EncodeResult(own))) {
    Add(DecodeResult(bytes), &all);
  }
  std::ranges::sort(all.records, {}, &run::EpisodeRecord::episode);
  return all;
}

}  // namespace dp_bench::rollout
