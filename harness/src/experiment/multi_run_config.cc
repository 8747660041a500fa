#include "experiment/multi_run_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench::experiment {

MultiRunConfig MultiRunConfig::FromConfig(const Config& config) {
  MultiRunConfig c;
  const auto seeds = config.Require<std::vector<std::int64_t>>(
      "seeds", "values of training.seed; `run` trains and evaluates each, in seed_<n>");
  c.run_dir = config
                  .GetOptional<std::string>("run_dir",
                                            "folder of all of them; none for a new one in runs/. "
                                            "`--output` takes precedence")
                  .value_or("");
  const auto is_negative = [](std::int64_t seed) { return seed < 0; };
  if (seeds.empty() || std::ranges::any_of(seeds, is_negative)) {
    throw Error(ErrorCode::kConfig, fmt::format("{}: expected one or more seeds of at least 0, "
                                                "found {}",
                                                config.Where("seeds"), seeds));
  }
  c.seeds.assign(seeds.begin(), seeds.end());
  return c;
}

}  // namespace dp_bench::experiment
