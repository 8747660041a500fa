// Demonstrations that do not fit the env in which the policy will act. Torch-free.
#pragma once

#include "dp_bench/env.h"
#include "inspect/demonstrations.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// Where episodes start in evaluation: the first observations of `n_resets` seeds from
/// `start_seed`.
struct ResetSample {
  std::uint64_t start_seed = 100000;
  int n_resets = 16;
};

/// All checks of this file.
Findings CheckEnv(Env& env, const Dataset& dataset, const Demonstrations& data,
                  const ShapeMeta& meta, const ResetSample& sample = {});

/// Recorded actions beyond the env's limits, where the env clips them.
Finding CheckActionLimits(const EnvSpec& env, const Demonstrations& data);

/// Data recorded at another rate than the env's control rate.
Finding CheckRate(const EnvSpec& env, double fps);

/// First observations far outside the data's range: other units, other order, another task.
Finding CheckResetRange(Env& env, const Demonstrations& data, const ShapeMeta& meta,
                        const ResetSample& sample);

/// Cameras whose colours match the env's only after swapping red and blue.
Finding CheckChannelOrder(Env& env, const Dataset& dataset, const ShapeMeta& meta,
                          const ResetSample& sample);

}  // namespace dp_bench::inspect
