// An env that runs in a separate process and is used like any other.
#pragma once

#include <memory>
#include <optional>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "dp_bench/hosted_env.h"
#include "plugin/guard.h"

namespace dp_bench::plugin {

/// The limits of the config section "env_runner"; nothing unless it says that every env has a
/// process of its own. Throws Error{kConfig} for values out of range.
std::optional<EnvLimits> ReadIsolation(const Config& env_runner);

/// PluginCatalogue::DescribeEnv in a process that ends afterwards.
EnvSpec DescribeIsolatedEnv(PluginPlace plugin, const Config& params, const EnvLimits& limits);

/// All results and messages equal those of the env in this process, bit for bit. A process that
/// ends is replaced once per episode, see EnvSession::Call. The plugin must be an env; it is
/// created from `params` as in PluginCatalogue::Create.
std::unique_ptr<Env> CreateIsolatedEnv(PluginPlace plugin, const Config& params,
                                       const EnvLimits& limits);

/// In an env's process: answers over `socket` until it is asked to end; returns the exit code of
/// the process. `memory_fd`: the shared memory.
int RunEnvWorker(int socket, int memory_fd);

}  // namespace dp_bench::plugin
