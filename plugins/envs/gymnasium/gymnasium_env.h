// Any Gymnasium environment as an env: gym_host.py runs it in a Python process of its own. Here is
// only what the params mean.
#pragma once

#include <memory>

#include "dp_bench/config.h"
#include "dp_bench/env.h"

namespace dp_bench::gymnasium {

/// Asks a process for the spaces, once per params in this program. Throws Error{kConfig} for
/// params that do not fit the spaces, Error{kEnv} with the Python exception.
EnvSpec Describe(const Config& params);

/// Score: the highest reward. Success: the param `success`. Actions are clipped to the bounds of
/// the action space. An episode that is truncated before max_steps ends like a terminated one.
std::unique_ptr<Env> Create(const Config& params);

}  // namespace dp_bench::gymnasium
