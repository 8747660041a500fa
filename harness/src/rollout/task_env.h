// An env whose observations say which task it is, for policies of several tasks.
#pragma once

#include <memory>
#include <span>

#include "dp_bench/env.h"

namespace dp_bench::rollout {

/// The spec of an env with a further observation.
EnvSpec WithTaskKey(EnvSpec spec, const KeySpec& key);

/// The same env with the observation `key`, whose value is always `vector`, [n]. All abilities are
/// kept. Throws Error{kPlugin} if the env has an observation of this name itself.
std::unique_ptr<Env> WithTaskKey(std::unique_ptr<Env> env, const KeySpec& key,
                                 std::span<const float> vector);

}  // namespace dp_bench::rollout
