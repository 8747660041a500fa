// The section `multi_run` of a config: one training per seed, as with `dp_bench run --seeds`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "dp_bench/config.h"

namespace dp_bench::experiment {

struct MultiRunConfig {
  std::vector<std::uint64_t> seeds;
  std::filesystem::path run_dir;  // empty: a new folder

  static MultiRunConfig FromConfig(const Config& config);
};

}  // namespace dp_bench::experiment
