// Demonstrations that do not fit the env in which the policy will act. Torch-free.
#pragma once

#include "diagnose/demonstrations.h"
#include "diagnose/finding.h"
#include "dp_bench/env.h"

namespace dp_bench::diagnose {

/// Recorded actions beyond the env's limits, where the env clips them; another rate than the env's;
/// first observations of 16 test episodes far outside the data's range (other units, other order,
/// another task); cameras whose colours match the env's only after swapping red and blue.
Findings CheckEnv(Env& env, const Dataset& dataset, const Demonstrations& data,
                  const ShapeMeta& meta);

}  // namespace dp_bench::diagnose
