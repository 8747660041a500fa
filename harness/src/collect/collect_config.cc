#include "collect/collect_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"

namespace dp_bench {

CollectConfig CollectConfig::FromConfig(const Config& config) {
  CollectConfig c;
  c.n_episodes = static_cast<int>(
      config.GetInRange("n_episodes", std::int64_t{c.n_episodes}, std::int64_t{1}, 10'000'000));
  c.start_seed = config.Get<std::uint64_t>("start_seed", c.start_seed);
  c.action_noise = config.GetInRange("action_noise", c.action_noise, 0.0, 1.0);
  c.action_noise_std = config.GetOptional<std::vector<double>>("action_noise_std");
  c.keep_failures = config.Get<bool>("keep_failures", c.keep_failures);
  c.n_workers = static_cast<int>(
      config.GetInRange("n_workers", std::int64_t{c.n_workers}, std::int64_t{0}, 4096));
  if (!c.action_noise_std) return c;

  const auto is_std = [](double value) { return std::isfinite(value) && value >= 0.0; };
  if (c.action_noise > 0.0 || !std::ranges::all_of(*c.action_noise_std, is_std)) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: wanted one standard deviation of 0 or more per dimension of the "
                            "action, and action_noise (a fraction of its range) 0 beside it",
                            config.Where("action_noise_std")));
  }
  return c;
}

std::vector<double> CollectConfig::NoiseStd(const EnvSpec& env) const {
  const std::size_t action_dim = env.action_low.size();
  if (action_noise_std && action_noise_std->size() != action_dim) {
    throw Error(ErrorCode::kConfig,
                fmt::format("collect.action_noise_std has {} numbers; the action has {} dimensions",
                            action_noise_std->size(), action_dim));
  }
  if (action_noise_std) return *action_noise_std;
  std::vector<double> std(action_dim);
  for (std::size_t i = 0; i < action_dim; ++i) {
    std[i] = action_noise * (static_cast<double>(env.action_high[i]) - env.action_low[i]);
  }
  return std;
}

}  // namespace dp_bench
