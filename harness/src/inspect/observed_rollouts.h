// What a policy sees while it acts: its low-dimensional observations each time it plans.
// Torch-free.
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
  std::vector<std::uint64_t> env_steps;           // [n], executed before each plan; ascending
  std::map<std::string, std::vector<float>> obs;  // low_dim key -> [n, dim], the latest one
};

/// Runs all episodes of the runner, whose seeds must differ, and returns what those that did not
/// fail saw of the float32 keys `keys`, in the order of the seed list. Throws what EnvRunner::Run
/// throws.
std::vector<ObservedEpisode> ObserveRollouts(rollout::EnvRunner& runner,
                                             rollout::ChunkPlanner& planner,
                                             const std::vector<std::string>& keys);

}  // namespace dp_bench::inspect
