#include "data/collector.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "core/clock.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/sha256.h"
#include "core/thread_pool.h"
#include "data/zarr/metadata.h"
#include "dp_bench/config_keys.h"
#include "dp_bench/random.h"

namespace dp_bench::data {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kEnvSha256 = "env_sha256";  // in .zattrs

constexpr std::size_t kFewFailures = 40;  // with fewer, an expert is not judged
constexpr std::size_t kFailuresPerSuccess = 4;

// The attributes of a dataset: the result of every seed so far.
struct CollectionLog {
  std::vector<std::uint64_t> seeds;  // per episode
  std::vector<bool> successes;       // per episode
  std::vector<SeedFailure> failures;
  std::int64_t n_steps = 0;

  std::uint64_t NextSeed(std::uint64_t start_seed) const {
    return seeds.empty() ? start_seed : seeds.back() + 1;
  }
  bool IsHopeless() const {
    return failures.size() >= kFewFailures && failures.size() > kFailuresPerSuccess * seeds.size();
  }
};

// The log of the first `n_episodes`; after a kill it may be longer. Failures of later seeds are
// dropped, and occur again when these seeds are repeated. A log that this program did not write
// must not look like a fault of the program.
CollectionLog ReadLog(const std::filesystem::path& folder, const json& attributes,
                      std::size_t n_episodes) {
  CollectionLog log;
  if (n_episodes == 0) return log;
  try {
    attributes.at("episodes").at("seed").get_to(log.seeds);
    attributes.at("episodes").at("success").get_to(log.successes);
    attributes.at("n_steps").get_to(log.n_steps);
    if (log.seeds.size() < n_episodes || log.successes.size() < n_episodes) {
      throw DataError(".zattrs lists {} seeds, but the dataset has {} episodes", log.seeds.size(),
                      n_episodes);
    }
    log.seeds.resize(n_episodes);
    log.successes.resize(n_episodes);
    for (const json& failure : attributes.at("failures")) {
      const auto seed = failure.at("seed").get<std::uint64_t>();
      if (seed < log.seeds.back()) log.failures.push_back({seed, failure.at("reason")});
    }
    return log;
  } catch (const json::exception& error) {
    throw DataError("{}/.zattrs is damaged: {}", folder.string(), error.what());
  }
}

// Datasets of versions before 0.2 do not say which file of the plugin made them.
bool IsOfAnotherEnv(const json& attributes, const CollectRequest& request) {
  return attributes.contains(kEnvSha256) && !request.env_sha256.empty() &&
         attributes.at(kEnvSha256) != request.env_sha256;
}

ExpertPlan MakePlan(const CollectRequest& request) {
  const std::unique_ptr<Env> env = request.env_factory();
  DPB_ASSERT(env != nullptr && env->spec().abilities.has_expert);
  DPB_ASSERT(request.config.takeover.has_value() == (request.first_actor_factory != nullptr));
  if (request.first_actor_factory)
    request.first_actor_factory();  // throws before files are written
  return {.env_factory = request.env_factory,
          .env = env->spec(),
          .keys = RecordedKeys(env->spec()),
          .noise_std = request.config.NoiseStd(env->spec()),
          .first_actor_factory = request.first_actor_factory,
          .max_first_steps = request.config.takeover ? request.config.takeover->max_steps : 0,
          .n_steps_after_success = request.config.n_steps_after_success,
          .stop = request.stop};
}

// Experts on several threads. Their episodes are handed out in the order of the seeds.
class ExpertPool {
 public:
  // `plan` must outlive the pool. No seed starts before the first call of `Next`.
  ExpertPool(const ExpertPlan& plan, std::uint64_t first_seed, int n_workers)
      : plan_(plan),
        n_workers_(core::ResolveThreadCount(n_workers)),
        next_to_hand_out_(first_seed),
        next_to_begin_(first_seed),
        end_(first_seed) {
    for (int i = 0; i < n_workers_; ++i) workers_.emplace_back([this] { Work(); });
  }
  ExpertPool(const ExpertPool&) = delete;
  ExpertPool& operator=(const ExpertPool&) = delete;

  // Waits for the episodes that are being played.
  ~ExpertPool() {
    {
      const std::lock_guard lock(mutex_);
      is_stopped_ = true;
    }
    may_begin_.notify_all();
  }

  // Waits for the result of the next seed. `n_missing`: the number of episodes that the caller
  // still needs, if all are good. Workers do not play further ahead than that, nor more than two
  // episodes per worker. Returns nothing once `plan.stop` ended an episode.
  std::optional<ExpertEpisode> Next(int n_missing) {
    std::unique_lock lock(mutex_);
    const int ahead = std::min(n_missing, 2 * n_workers_);
    end_ = std::max(end_, next_to_hand_out_ + static_cast<std::uint64_t>(ahead));
    may_begin_.notify_all();
    has_ended_.wait(lock, [this] {
      return is_stopped_ || failure_ != nullptr || ready_.contains(next_to_hand_out_);
    });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    auto episode = ready_.extract(next_to_hand_out_);
    if (episode.empty()) return std::nullopt;
    ++next_to_hand_out_;
    return std::move(episode.mapped());
  }

 private:
  // An env is created, used and destroyed on one thread, because graphics contexts require it.
  void Work() {
    try {
      ExpertRunner runner(plan_);
      while (true) {
        std::unique_lock lock(mutex_);
        may_begin_.wait(lock, [this] { return is_stopped_ || next_to_begin_ < end_; });
        if (is_stopped_) return;
        const std::uint64_t seed = next_to_begin_++;
        lock.unlock();
        std::optional<ExpertEpisode> episode = runner.Run(seed);
        lock.lock();
        if (episode) {
          ready_.emplace(seed, std::move(*episode));
        } else {
          is_stopped_ = true;
          may_begin_.notify_all();
        }
        has_ended_.notify_all();
      }
    } catch (...) {  // thread entry point: Next rethrows it
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      has_ended_.notify_all();
    }
  }

  const ExpertPlan& plan_;
  const int n_workers_;

  std::mutex mutex_;
  std::condition_variable may_begin_;
  std::condition_variable has_ended_;
  std::uint64_t next_to_hand_out_;
  std::uint64_t next_to_begin_;
  std::uint64_t end_;  // one past the last seed that may begin
  std::map<std::uint64_t, ExpertEpisode> ready_;
  bool is_stopped_ = false;  // an episode was given up, or the pool is closing
  std::exception_ptr failure_;
  std::vector<std::jthread> workers_;  // last: joined before the members they use are destroyed
};

class Collection {
 public:
  Collection(const CollectRequest& request, const ExpertPlan& plan)
      : request_(request),
        plan_(plan),
        writer_(request.output, plan.keys, request.origin),
        log_(ReadLog(request.output, writer_.attributes(),
                     static_cast<std::size_t>(writer_.n_episodes()))),
        last_commit_(Clock::now()) {
    log_.n_steps = writer_.n_steps();
    RequireOneExpert();
  }

  int n_episodes() const { return static_cast<int>(log_.seeds.size()); }
  const CollectionLog& log() const { return log_; }

  // False if it was interrupted.
  bool Run(const CollectProgressFn& progress) {
    const int n_wanted = request_.config.n_episodes;
    ExpertPool pool(plan_, log_.NextSeed(request_.config.start_seed), request_.config.n_workers);
    while (n_episodes() < n_wanted) {
      const std::optional<ExpertEpisode> episode = pool.Next(n_wanted - n_episodes());
      if (!episode) break;
      Add(*episode);
      if (progress) {
        progress({.n_episodes = n_episodes(),
                  .n_wanted = n_wanted,
                  .n_failed = static_cast<int>(log_.failures.size()),
                  .n_steps = log_.n_steps});
      }
      if (log_.IsHopeless()) GiveUp();
      if (core::SecondsSince(last_commit_) >= request_.commit_seconds) Commit();
    }
    Commit();
    return n_episodes() >= n_wanted;
  }

 private:
  void RequireOneExpert() const {
    if (n_episodes() == 0 || !IsOfAnotherEnv(writer_.attributes(), request_)) return;
    throw UsageError(
        "{} holds {} episodes of another build of the env plugin (sha256 {}, now \"{}\"): expected "
        "one expert for all episodes. Give another output folder, remove this one, or continue "
        "with the plugin that began it.",
        request_.output.string(), n_episodes(), writer_.attributes().at(kEnvSha256).dump(),
        request_.env_sha256);
  }

  void Add(const ExpertEpisode& episode) {
    const bool is_wanted = episode.success || (request_.config.keep_failures && episode.is_whole);
    const bool is_kept = is_wanted && episode.steps.n_steps() > 0;
    if (!is_kept) {
      log_.failures.push_back({episode.seed, episode.failure});
      return;
    }
    writer_.Append(episode.steps);
    log_.seeds.push_back(episode.seed);
    log_.successes.push_back(episode.success);
    log_.n_steps = writer_.n_steps();
  }

  void Commit() {
    json attributes =
        RolloutAttributes(plan_.env.control_hz, log_.n_steps,
                          {{"seed", log_.seeds}, {"success", log_.successes}}, log_.failures);
    if (!request_.env_sha256.empty()) attributes[kEnvSha256] = request_.env_sha256;
    writer_.Commit(std::move(attributes), n_episodes() >= request_.config.n_episodes);
    last_commit_ = Clock::now();
  }

  [[noreturn]] void GiveUp() {
    Commit();
    throw EnvError(
        "the expert fails too often: {} of {} seeds solved. The last failure, seed {}: {}",
        n_episodes(), log_.seeds.size() + log_.failures.size(), log_.failures.back().seed,
        log_.failures.back().reason);
  }

  const CollectRequest& request_;
  const ExpertPlan& plan_;
  ReplayWriter writer_;
  CollectionLog log_;
  Clock::time_point last_commit_;
};

CollectReport ReportOf(const CollectionLog& log) {
  return {.n_episodes = static_cast<int>(log.seeds.size()),
          .n_steps = log.n_steps,
          .failures = log.failures};
}

constexpr std::size_t kHashDigits = 8;

std::vector<std::string> EnvsWithExpert(plugin::PluginCatalogue& catalogue) {
  std::vector<std::string> names;
  for (const plugin::PluginInfo& plugin : catalogue.List()) {
    if (plugin.kind != PluginKind::kEnv || !plugin.refused.empty()) continue;
    try {
      const EnvSpec spec = catalogue.DescribeEnv(plugin.name, Config::FromJson("{}"));
      if (spec.abilities.has_expert) names.push_back(plugin.name);
    } catch (const Error&) {
      // skip envs that need params or whose files are missing
    }
  }
  return names;
}

}  // namespace

// A complete dataset is not opened for writing: other processes may be reading it.
std::optional<CollectReport> FindCollection(const CollectRequest& request) {
  const json attributes = ReadReplayAttributes(request.output);
  if (attributes.is_null() || attributes.at("origin") != request.origin ||
      attributes.value(zarr::kCompleteAttribute, json()) != true) {
    return std::nullopt;
  }
  const json seeds = core::ValueAt(attributes, "/episodes/seed");
  // a complete dataset has episodes
  const CollectionLog log =
      ReadLog(request.output, attributes, std::max<std::size_t>(1, seeds.size()));
  if (static_cast<int>(log.seeds.size()) < request.config.n_episodes) return std::nullopt;
  CollectReport report = ReportOf(log);
  report.n_before = report.n_episodes;
  report.is_of_another_env = IsOfAnotherEnv(attributes, request);
  return report;
}

CollectReport Collect(const CollectRequest& request, const CollectProgressFn& progress) {
  const auto start = Clock::now();
  if (std::optional<CollectReport> done = FindCollection(request)) return *std::move(done);
  const ExpertPlan plan = MakePlan(request);
  Collection collection(request, plan);
  const int n_before = collection.n_episodes();
  const bool is_whole = collection.Run(progress);
  CollectReport report = ReportOf(collection.log());
  report.n_before = n_before;
  report.wall_s = core::SecondsSince(start);
  report.is_interrupted = !is_whole;
  return report;
}

TakeoverConfig TakeoverConfig::FromConfig(const Config& config) {
  TakeoverConfig c = {
      .checkpoint = config.Require<std::string>("checkpoint", "checkpoint or run of the policy")};
  const ConfigKeys keys(config);
  keys("max_steps", &c.max_steps, 1, 1'000'000,
       "it acts for 0 to this many steps, a number drawn anew for each episode");
  return c;
}

CollectConfig CollectConfig::FromConfig(const Config& config) {
  CollectConfig c;
  const ConfigKeys keys(config);
  keys("n_episodes", &c.n_episodes, 1, 10'000'000, "episodes to keep");
  keys("start_seed", &c.start_seed, 0, std::numeric_limits<std::int64_t>::max(),
       "seed of the first episode; the others follow");
  keys("action_noise", &c.action_noise, 0.0, 1.0,
       "standard deviation of noise on executed actions, as a fraction of the action range; the "
       "expert's own action is recorded");
  keys("action_noise_std", &c.action_noise_std,
       "instead of action_noise: one standard deviation per dimension, in the action's units");
  keys("keep_failures", &c.keep_failures, "keep episodes without success too");
  keys("n_steps_after_success", &c.n_steps_after_success, 0, 1'000'000,
       "steps that follow the first success, so that a policy learns to hold the solved state");
  keys("n_workers", &c.n_workers, 0, 4096,
       "threads; 0 = one per usable processor. Does not change the result");
  if (config.Has("takeover")) {
    c.takeover = TakeoverConfig::FromConfig(config.Sub(
        "takeover", "a policy acts first, then the expert takes over and is recorded from there"));
  }
  if (!c.action_noise_std) return c;

  const auto is_std = [](double value) { return std::isfinite(value) && value >= 0.0; };
  if (c.action_noise > 0.0 || !std::ranges::all_of(*c.action_noise_std, is_std)) {
    throw ConfigError(
        "{}: expected one standard deviation of 0 or more per dimension of the action, and 0 for "
        "action_noise (a fraction of its range)",
        config.Where("action_noise_std"));
  }
  return c;
}

std::vector<double> CollectConfig::NoiseStd(const EnvSpec& env) const {
  const std::size_t action_dim = env.action_low.size();
  if (action_noise_std && action_noise_std->size() != action_dim) {
    throw ConfigError("collect.action_noise_std has {} numbers; the action has {} dimensions",
                      action_noise_std->size(), action_dim);
  }
  if (action_noise_std) return *action_noise_std;
  std::vector<double> std(action_dim);
  for (std::size_t i = 0; i < action_dim; ++i) {
    std[i] = action_noise * (static_cast<double>(env.action_high[i]) - env.action_low[i]);
  }
  return std;
}

ExpertRunner::ExpertRunner(const ExpertPlan& plan)
    : plan_(plan),
      first_actor_(plan.first_actor_factory ? plan.first_actor_factory() : nullptr),
      obs_(plan.env),
      action_(plan.env.action_low.size()),
      executed_(action_.size()) {}

std::optional<ExpertEpisode> ExpertRunner::Run(std::uint64_t seed) {
  ExpertEpisode episode{.seed = seed, .steps = ReplayEpisode(plan_.keys)};
  try {
    if (!Play(&episode)) return std::nullopt;
    episode.is_whole = true;
  } catch (const std::exception& error) {
    episode.success = false;
    episode.failure = fmt::format("step {}: {}", episode.steps.n_steps(), error.what());
    env_.reset();  // its state is unknown
  }
  return episode;
}

// False if it was stopped.
bool ExpertRunner::Play(ExpertEpisode* episode) {
  if (env_ == nullptr) env_ = plan_.env_factory();
  env_->Reset(episode->seed);
  const int takeover = DrawTakeover(episode->seed);
  int n_steps = plan_.env.max_steps;
  for (int step = 0; step < n_steps; ++step) {
    if (plan_.stop != nullptr && *plan_.stop) return false;
    const StepResult result = env_->Step(ChooseAction(episode, step, takeover));
    if (result.success && step < takeover) {
      episode->failure =
          fmt::format("the policy succeeded at step {}, before the takeover", step + 1);
      return true;
    }
    if (result.success && !episode->success) {
      episode->success = true;
      n_steps = std::min(n_steps, step + 1 + plan_.n_steps_after_success);
    }
    if (!result.terminated) continue;
    if (!episode->success) {
      episode->failure = fmt::format("the episode ended at step {} without success", step + 1);
    }
    return true;
  }
  if (!episode->success) {
    episode->failure = fmt::format("no success within {} steps", plan_.env.max_steps);
  }
  return true;
}

// Draws the step at which the expert takes over, and resets the first actor.
int ExpertRunner::DrawTakeover(std::uint64_t seed) {
  if (first_actor_ == nullptr) return 0;
  first_actor_->Reset(seed);
  RandomStream random(seed, StreamId::kAugment, 0, /*minor=*/1);
  return static_cast<int>(random.UniformDouble() * (plan_.max_first_steps + 1));
}

std::span<const float> ExpertRunner::ChooseAction(ExpertEpisode* episode, int step, int takeover) {
  if (step == takeover) env_->BeginExpert(episode->seed);
  obs_.Observe(*env_);
  if (step < takeover) return first_actor_->Act(obs_.values());
  env_->Act(action_);
  Record(&episode->steps);
  return Perturb(episode->seed, step);
}

void ExpertRunner::Record(ReplayEpisode* steps) {
  for (std::size_t i = 0; i < action_.size(); ++i) {
    if (std::isfinite(action_[i])) continue;
    throw NumericError("the expert's action is {} in dimension {}", action_[i], i);
  }
  std::vector<std::span<const std::byte>> values = obs_.values();
  values.push_back(std::as_bytes(std::span(action_)));
  steps->Append(values);
}

std::span<const float> ExpertRunner::Perturb(std::uint64_t seed, std::int64_t step) {
  RandomStream random(seed, StreamId::kAugment, static_cast<std::uint64_t>(step));
  for (std::size_t i = 0; i < action_.size(); ++i) {
    const float noise = random.Normal() * static_cast<float>(plan_.noise_std[i]);
    executed_[i] = noise == 0.0F ? action_[i]
                                 : std::clamp(action_[i] + noise, plan_.env.action_low[i],
                                              plan_.env.action_high[i]);
  }
  return executed_;
}

json CollectionOrigin(const std::string& env_section, const std::string& env_version,
                      const CollectConfig& config) {
  json origin = {{"env", json::parse(env_section)},
                 {"env_version", env_version},
                 {"start_seed", config.start_seed},
                 {"action_noise", config.action_noise},
                 {"action_noise_std",
                  config.action_noise_std ? json(*config.action_noise_std) : json(nullptr)},
                 {"keep_failures", config.keep_failures}};
  // the interpreter of an env is another path on each machine
  if (origin["env"].contains("params")) origin["env"]["params"].erase("python");
  if (config.n_steps_after_success > 0) {  // without it, the paths of datasets stay the same
    origin["n_steps_after_success"] = config.n_steps_after_success;
  }
  return origin;
}

std::filesystem::path CollectionPath(const std::string& name, const json& origin, int n_episodes) {
  const std::string text = fmt::format("{} {}", origin.dump(), n_episodes);
  const std::string hash = core::Sha256Hex(text);
  return std::filesystem::path("data") /
         fmt::format("{}-{}.zarr", name, hash.substr(0, kHashDigits));
}

void RequireExpert(const EnvSpec& env, const std::string& name,
                   plugin::PluginCatalogue& catalogue) {
  if (env.abilities.has_expert) return;
  const std::vector<std::string> others = EnvsWithExpert(catalogue);
  throw UsageError(
      "cannot collect: the env '{}' has no expert{} (envs with one: {}). Give your own "
      "demonstrations with --dataset PATH.",
      name, name == "gymnasium" ? "; env.params.expert names one in Python" : "",
      others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", ")));
}

}  // namespace dp_bench::data
