// For env plugins whose env runs in another program, such as a Python interpreter. Each env has its
// own process, which is watched and replaced like that of an isolated env (docs/adr/0010). The
// program speaks the protocol of harness/src/plugin/env_message.h.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "dp_bench/export.h"

namespace dp_bench {

/// The limits of an env's own process.
struct EnvLimits {
  double step_timeout = 30.0;   // [s] for a step, an observation or an image
  double reset_timeout = 60.0;  // [s] to create, describe or reset the env
  int memory_limit_mb = 0;      // [MiB]; 0: no limit

  /// Reads the keys of these names. Throws Error{kConfig} for values out of range.
  static DPB_API EnvLimits FromConfig(const Config& config);
};

/// How to run an env in another program.
struct HostedEnv {
  std::string name;  // of the plugin, for warnings
  /// The program, which is searched for in PATH unless it has a slash, and its arguments. Three
  /// numbers follow them: the descriptors of the socket and of the shared memory, and the id of
  /// its parent. Every process that it starts ends with it.
  std::vector<std::string> command;
  std::string request;  // what the program needs to create or describe the env
  /// The program's own files: each process loads them again, so they must not change meanwhile.
  std::vector<std::filesystem::path> files;
  EnvLimits limits;
};

/// The spec of the env, from a process that ends afterwards. Throws the program's errors, and
/// Error{kEnv} if it ends or exceeds a limit.
DPB_API EnvSpec DescribeHostedEnv(const HostedEnv& hosted);

/// Starts the process. It is replaced once per episode if it ends; if that happens again, the
/// episode fails with Error{kEnv}.
DPB_API std::unique_ptr<Env> CreateHostedEnv(const HostedEnv& hosted);

}  // namespace dp_bench
