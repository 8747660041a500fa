// Does the acting policy see states that the demonstrations cover? Torch-free.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inspect/demonstrations.h"
#include "inspect/finding.h"
#include "inspect/observed_rollouts.h"

namespace dp_bench::inspect {

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

/// The same hypothesis, left open.
Finding LeaveCoverageOpen(std::string reason);

}  // namespace dp_bench::inspect
