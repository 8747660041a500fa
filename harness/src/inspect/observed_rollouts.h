// What a policy observes while it acts: the low-dimensional observations of each plan. Torch-free.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "rollout/chunk_planner.h"
#include "rollout/env_runner.h"

namespace dp_bench::inspect {

/// One episode of n plans.
struct ObservedEpisode {
  std::uint64_t seed = 0;
  bool success = false;
  std::vector<std::uint64_t> env_steps;           // [n], steps executed before each plan; ascending
  std::map<std::string, std::vector<float>> obs;  // low_dim key -> [n, dim], the latest observation
};

/// Runs all episodes of the runner, whose seeds must differ. Returns the observations of the
/// float32 keys `keys` for the episodes that did not fail, in the order of the seed list. Throws
/// what EnvRunner::Run throws.
std::vector<ObservedEpisode> ObserveRollouts(rollout::EnvRunner& runner,
                                             rollout::ChunkPlanner& planner,
                                             const std::vector<std::string>& keys);

}  // namespace dp_bench::inspect
