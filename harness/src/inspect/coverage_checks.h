// Does the policy, while it acts, see states that the demonstrations have? Torch-free.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "inspect/demonstrations.h"
#include "inspect/finding.h"
#include "inspect/observed_rollouts.h"

namespace dp_bench::inspect {

/// Normalizer scale of each dimension of an observation key: what differences are measured in.
using ObsScales = std::map<std::string, std::vector<float>>;

/// Observations of rollouts far from the nearest one of `train_episodes`, as compared with how far
/// observations of the data are from those of other episodes. Confirmed when the median rollout
/// observation is farther than 99 % of the data's own, or the median start than 99 % of the data's
/// starts. All keys of `scales` are compared; each must be among the data and in every episode. A
/// note, not a problem, when at least half of the episodes succeed, or when `so_far` has a problem
/// of weights or sampling that explains why a policy drifts away.
Finding CheckCoverage(const Demonstrations& data, const std::vector<bool>& train_episodes,
                      const ObsScales& scales, const std::vector<ObservedEpisode>& episodes,
                      const Findings& so_far);

/// The same hypothesis, left open.
Finding LeaveCoverageOpen(std::string reason);

}  // namespace dp_bench::inspect
