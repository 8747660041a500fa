// Demonstrations that do not fit the env in which the policy is to act. Torch-free.
#pragma once

#include "dp_bench/env.h"
#include "inspect/demonstrations.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// Where the policy starts in evaluation: `n_resets` first observations from `start_seed` on.
struct ResetSample {
  std::uint64_t start_seed = 100000;
  int n_resets = 16;
};

/// All checks of this file.
Findings CheckEnv(Env& env, const Dataset& dataset, const Demonstrations& data,
                  const ShapeMeta& meta, const ResetSample& sample = {});

/// Recorded actions beyond the env's limits, which it will clip.
Finding CheckActionLimits(const EnvSpec& env, const Demonstrations& data);

/// Recorded at another rate than the env is controlled at.
Finding CheckRate(const EnvSpec& env, double fps);

/// First observations far outside of what the data show: other units, other order, another task.
Finding CheckResetRange(Env& env, const Demonstrations& data, const ShapeMeta& meta,
                        const ResetSample& sample);

/// Cameras whose colours agree with the env's only after red and blue are swapped.
Finding CheckChannelOrder(Env& env, const Dataset& dataset, const ShapeMeta& meta,
                          const ResetSample& sample);

}  // namespace dp_bench::inspect
