// Data that all episodes of a runner share.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "control/correction_head.h"
#include "control/env_runner_config.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"
#include "run/episode_record.h"

namespace dp_bench::rollout {

using EnvFactory = std::function<std::unique_ptr<Env>()>;

/// Must not change while slots use it.
struct RolloutPlan {
  control::EnvRunnerConfig config;
  EnvFactory env_factory;
  EnvSpec env;                        // what the env offers
  ShapeMeta shape_meta;               // what the policy needs: some of the env's keys
  std::vector<int> obs_index_of_env;  // per env obs key: index into shape_meta.obs, or -1
  Horizons horizons;
  run::ObsRanges obs_ranges;  // of the policy's training data; see EnvRunner::SetObsRanges
  int max_steps = 0;
  std::optional<std::size_t> score_metric;  // index into env.metrics; none: the highest reward
  int delay = 0;                            // [control steps] that a plan takes; with a random
                                            // latency, the median
  int execute = 1;                          // [control steps] from one plan to the next
  std::filesystem::path output_dir;
  std::shared_ptr<const control::CorrectionHead> correction;  // of every action; null: none
  bool records_steps = false;                                 // see EnvRunner::RecordSteps
};

}  // namespace dp_bench::rollout
