#include "collect/collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "collect/expert_pool.h"
#include "collect/expert_runner.h"
#include "data/replay_writer.h"
#include "dp_bench/build_id.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kFewFailures = 40;  // below that, nothing is said of an expert
constexpr std::size_t kFailuresPerSuccess = 4;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The attributes of a data set: what came of every seed so far.
struct CollectionLog {
  std::vector<std::uint64_t> seeds;  // per episode
  std::vector<bool> successes;       // per episode
  std::vector<SeedFailure> failures;
  std::int64_t n_steps = 0;

  // The log of the first `n_episodes`; a kill may have left a longer one. Failures of later seeds
  // are forgotten with them, and will come again.
  static CollectionLog FromJson(const json& attributes, std::size_t n_episodes);
  json ToJson(double fps) const;

  std::uint64_t NextSeed(std::uint64_t start_seed) const {
    return seeds.empty() ? start_seed : seeds.back() + 1;
  }
  bool IsHopeless() const {
    return failures.size() >= kFewFailures && failures.size() > kFailuresPerSuccess * seeds.size();
  }
};

CollectionLog CollectionLog::FromJson(const json& attributes, std::size_t n_episodes) {
  CollectionLog log;
  if (n_episodes == 0) return log;
  attributes.at("episodes").at("seed").get_to(log.seeds);
  attributes.at("episodes").at("success").get_to(log.successes);
  attributes.at("n_steps").get_to(log.n_steps);
  if (log.seeds.size() < n_episodes || log.successes.size() < n_episodes) {
    throw Error(ErrorCode::kData, fmt::format(".zattrs tells of {} seeds, the data set has {} "
                                              "episodes",
                                              log.seeds.size(), n_episodes));
  }
  log.seeds.resize(n_episodes);
  log.successes.resize(n_episodes);
  for (const json& failure : attributes.at("failures")) {
    const auto seed = failure.at("seed").get<std::uint64_t>();
    if (seed < log.seeds.back()) log.failures.push_back({seed, failure.at("reason")});
  }
  return log;
}

json CollectionLog::ToJson(double fps) const {
  json failed = json::array();
  for (const SeedFailure& failure : failures) {
    failed.push_back({{"seed", failure.seed}, {"reason", failure.reason}});
  }
  return {{"fps", fps},
          {"n_steps", n_steps},
          {"episodes", {{"seed", seeds}, {"success", successes}}},
          {"failures", std::move(failed)},
          {"dp_bench", kVersion}};
}

// A log that this program did not write must not look like a fault of the program.
CollectionLog ReadLog(const std::filesystem::path& folder, const json& attributes,
                      std::size_t n_episodes) {
  try {
    return CollectionLog::FromJson(attributes, n_episodes);
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kData,
                fmt::format("{}/.zattrs is damaged: {}", folder.string(), error.what()));
  }
}

ExpertPlan MakePlan(const CollectRequest& request) {
  const std::unique_ptr<Env> env = request.env_factory();
  DPB_ASSERT(env != nullptr && env->expert() != nullptr);
  ExpertPlan plan{.env_factory = request.env_factory,
                  .env = env->spec(),
                  .keys = env->spec().shape_meta.obs,
                  .noise_std = request.config.NoiseStd(env->spec()),
                  .stop = request.stop};
  plan.keys.push_back(plan.env.shape_meta.action);
  return plan;
}

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
  }

  int n_episodes() const { return static_cast<int>(log_.seeds.size()); }
  const CollectionLog& log() const { return log_; }

  // False when it was interrupted.
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
      if (SecondsSince(last_commit_) >= request_.commit_seconds) Commit();
    }
    Commit();
    return n_episodes() >= n_wanted;
  }

 private:
  void Add(const ExpertEpisode& episode) {
    const bool is_kept = episode.success || (request_.config.keep_failures && episode.is_whole);
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
    writer_.Commit(log_.ToJson(plan_.env.control_hz), n_episodes() >= request_.config.n_episodes);
    last_commit_ = Clock::now();
  }

  [[noreturn]] void GiveUp() {
    Commit();
    throw Error(ErrorCode::kEnv,
                fmt::format("the expert fails too often: {} of {} seeds solved. The last failure, "
                            "seed {}: {}",
                            n_episodes(), log_.seeds.size() + log_.failures.size(),
                            log_.failures.back().seed, log_.failures.back().reason));
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

}  // namespace

// What is complete is not even opened for writing: others may be reading it.
std::optional<CollectReport> FindCollection(const CollectRequest& request) {
  const json attributes = ReadReplayAttributes(request.output);
  if (attributes.is_null() || attributes.at("origin") != request.origin ||
      attributes.value("complete", json()) != true) {
    return std::nullopt;
  }
  const json seeds = attributes.value("/episodes/seed"_json_pointer, json::array());
  const CollectionLog log = ReadLog(request.output, attributes, seeds.size());
  if (static_cast<int>(log.seeds.size()) < request.config.n_episodes) return std::nullopt;
  CollectReport report = ReportOf(log);
  report.n_before = report.n_episodes;
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
  report.wall_s = SecondsSince(start);
  report.is_interrupted = !is_whole;
  return report;
}

}  // namespace dp_bench
