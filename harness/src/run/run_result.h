// Progress and result of a run of the EnvRunner.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "run/episode_record.h"

namespace dp_bench::run {

struct RunProgress {
  int n_done = 0;
  int n_episodes = 0;
  int n_failed = 0;
  double mean_score = 0.0;  // of the finished episodes
  std::int64_t n_env_steps = 0;
};

/// How a caller observes or stops a run. Each may be empty.
struct RunHooks {
  std::function<void(const RunProgress&)> progress = {};      // on the calling thread
  const std::atomic<bool>* stop = nullptr;                    // once set, no further plan starts
  std::function<void(const EpisodeRecord&)> on_episode = {};  // when an episode ends, on any thread
};

struct RunResult {
  std::vector<EpisodeRecord> records;     // in seed list order, train first
  std::vector<std::string> metric_names;  // for EpisodeRecord::metrics
  std::int64_t n_env_steps = 0;
  std::int64_t n_plans = 0;  // micro-batches planned
  double plan_s = 0.0;       // in the planner
  double wall_s = 0.0;
  bool is_interrupted = false;  // records has only the finished episodes
};

}  // namespace dp_bench::run
