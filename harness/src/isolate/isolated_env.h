// An env that runs in a process of its own and is used like any other.
#pragma once

#include <memory>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "isolate/isolation_config.h"
#include "plugin/guard.h"

namespace dp_bench {

/// Every outcome and every message is that of the env in this process, bit for bit; a process that
/// ends is replaced once per episode, as EnvSession::Call says. The plugin must be an env, created
/// from `params` as PluginCatalogue::Create does it.
std::unique_ptr<Env> CreateIsolatedEnv(PluginPlace plugin, const Config& params,
                                       const IsolationConfig& config);

}  // namespace dp_bench
