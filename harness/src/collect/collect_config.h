// The config section "collect": how many demonstrations of an env's expert, and which.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/env.h"

namespace dp_bench {

struct CollectConfig {
  int n_episodes = 200;                  // to keep
  std::uint64_t start_seed = 1'000'000;  // and the seeds that follow; never those of env_runner
  double action_noise = 0.0;             // standard deviation, as a fraction of the action range
  std::optional<std::vector<double>> action_noise_std;  // instead: per dimension, its own units
  bool keep_failures = false;
  int n_workers = 0;  // threads; 0: one per hardware thread. Part of no result

  /// Throws Error{kConfig} for values out of range, or both kinds of noise.
  static CollectConfig FromConfig(const Config& config);

  /// Standard deviation of the noise on each dimension of the action, [Da]. Throws Error{kConfig}
  /// when `action_noise_std` has another size.
  std::vector<double> NoiseStd(const EnvSpec& env) const;
};

}  // namespace dp_bench
