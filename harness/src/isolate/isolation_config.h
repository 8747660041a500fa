// The keys of the config section "env_runner" that decide whether envs run in processes of their
// own, and how long such a process may take.
#pragma once

#include <cstddef>

#include "dp_bench/config.h"

namespace dp_bench {

struct IsolationConfig {
  bool is_enabled = false;      // "isolate"
  double step_timeout = 30.0;   // [s] for Step, Observe, Render and what else is quick
  double reset_timeout = 60.0;  // [s] for creating an env, Reset, and an expert's Begin
  int memory_limit_mb = 0;      // resident memory of one env's process; 0: no limit

  /// Throws Error{kConfig} for values out of range.
  static IsolationConfig FromConfig(const Config& env_runner);
};

}  // namespace dp_bench
