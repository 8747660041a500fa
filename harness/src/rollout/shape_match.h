// Checks that an env offers the observations that a policy needs.
#pragma once

#include <vector>

#include "dp_bench/spec.h"

namespace dp_bench::rollout {

/// For every observation key of the env its index in `wanted.obs`, or -1. Throws Error{kShape},
/// listing both sides, if the env lacks a key, or a key or the action differs in type, dtype or
/// shape.
std::vector<int> MatchObsKeys(const ShapeMeta& env, const ShapeMeta& wanted);

}  // namespace dp_bench::rollout
