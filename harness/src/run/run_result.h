// What one run of the EnvRunner reports, while it goes on and at its end.
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
  double mean_score = 0.0;  // of the episodes done so far
  std::int64_t n_env_steps = 0;
};

/// What a run lets its caller see and do; each may be empty.
struct RunHooks {
  std::function<void(const RunProgress&)> progress = {};      // on the thread that runs
  const std::atomic<bool>* stop = nullptr;                    // once set, nothing more is planned
  std::function<void(const EpisodeRecord&)> on_episode = {};  // as each ends, on any thread
};

struct RunResult {
  std::vector<EpisodeRecord> records;     // in the order of the seed list, train first
  std::vector<std::string> metric_names;  // of EpisodeRecord::metrics
  std::int64_t n_env_steps = 0;
  std::int64_t n_plans = 0;  // micro-batches the planner was asked for
  double plan_s = 0.0;       // spent in the planner
  double wall_s = 0.0;
  bool is_interrupted = false;  // records are those of the episodes that had ended
};

}  // namespace dp_bench::run
