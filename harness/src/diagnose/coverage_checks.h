// Does the acting policy see states that the demonstrations cover? Torch-free.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "diagnose/data_checks.h"
#include "diagnose/finding.h"
#include "rollout/env_runner.h"

namespace dp_bench::diagnose {

/// The id of the hypothesis.
inline constexpr const char* kUnseenStates = "rollout.unseen_states";

/// One episode of n plans.
struct ObservedEpisode {
  bool success = false;
  std::vector<std::uint64_t> env_steps;           // [n], steps executed before each plan; ascending
  std::map<std::string, std::vector<float>> obs;  // low_dim key -> [n, dim], the latest observation
};

/// Runs all episodes of the runner, whose seeds must differ. Returns the observations of the
/// float32 keys `keys` for the episodes that did not fail, in the order of the seed list. Throws
/// what EnvRunner::Run throws.
std::vector<ObservedEpisode> ObserveRollouts(rollout::EnvRunner& runner,
                                             control::ChunkPlanner& planner,
                                             const std::vector<std::string>& keys);

/// The normalizer scale of each dimension of an observation key: the unit of distances.
using ObsScales = std::map<std::string, std::vector<float>>;

/// Checks how far rollout observations are from the nearest one of `train_episodes`, compared with
/// the distances between the data's own episodes. Confirmed if the median rollout observation is
/// farther than 99 % of the data's own observations, or the median start is farther than 99 % of
/// the data's starts. Compares all keys of `scales`; each must be in the data and in every episode.
/// The finding is a note, not a problem, if at least half of the episodes succeed, or if `so_far`
/// has a problem of weights or sampling that explains the drift.
Finding CheckCoverage(const Demonstrations& data, const std::vector<bool>& train_episodes,
                      const ObsScales& scales, const std::vector<ObservedEpisode>& episodes,
                      const Findings& so_far);

}  // namespace dp_bench::diagnose
