// An env that runs in a separate process and is used like any other.
#pragma once

#include <cstddef>
#include <memory>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "plugin/guard.h"

namespace dp_bench::plugin {

// The keys of the config section "env_runner" that decide whether envs run in separate processes,
// and the limits of such a process.

struct IsolationConfig {
  bool is_enabled = false;
  double step_timeout = 30.0;
  double reset_timeout = 60.0;
  int memory_limit_mb = 0;

  /// Throws Error{kConfig} for values out of range.
  static IsolationConfig FromConfig(const Config& env_runner);
};

/// PluginCatalogue::DescribeEnv in a process that ends afterwards.
EnvSpec DescribeIsolatedEnv(PluginPlace plugin, const Config& params,
                            const IsolationConfig& config);

/// All results and messages equal those of the env in this process, bit for bit. A process that
/// ends is replaced once per episode, see EnvSession::Call. The plugin must be an env; it is
/// created from `params` as in PluginCatalogue::Create.
std::unique_ptr<Env> CreateIsolatedEnv(PluginPlace plugin, const Config& params,
                                       const IsolationConfig& config);

/// In an env's process: answers over `socket` until it is asked to end; returns the exit code of
/// the process. `memory_fd`: the shared memory.
int RunEnvWorker(int socket, int memory_fd);

}  // namespace dp_bench::plugin
