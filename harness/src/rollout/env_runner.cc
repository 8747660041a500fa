#include "rollout/env_runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "control/control_loop.h"
#include "core/errors.h"
#include "core/json.h"
#include "data/replay_writer.h"
#include "rollout/rollout_loop.h"
#include "rollout/shape_match.h"
#include "run/episode_log.h"

namespace dp_bench::rollout {
namespace {

// The control steps that a plan takes, or half of the plans at most.
int DelaySteps(const control::EnvRunnerConfig& config, double control_hz) {
  const control::LatencyModel& latency = config.chunking.latency;
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
                     .is_filmed = i < n_videos});
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
  job.is_filmed = false;
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
