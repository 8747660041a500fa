#include "data/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "data/numpy_choice.h"
#include "dp_bench/error.h"

namespace dp_bench {

std::vector<bool> ValidationMask(std::int64_t n_episodes, double val_ratio, std::uint64_t seed) {
  if (!(val_ratio >= 0.0 && val_ratio <= 1.0)) {
    throw Error(ErrorCode::kConfig,
                fmt::format("val_ratio is {}; it is a share of the episodes, 0 to 1", val_ratio));
  }
  std::vector<bool> mask(static_cast<std::size_t>(n_episodes), false);
  if (val_ratio == 0.0 || n_episodes < 2) return mask;

  // nearbyint rounds halves to even, as Python's round does
  const auto wanted =
      static_cast<std::int64_t>(std::nearbyint(static_cast<double>(n_episodes) * val_ratio));
  const std::int64_t n_val = std::clamp<std::int64_t>(wanted, 1, n_episodes - 1);
  for (const std::int64_t episode : NumpyChoice(seed, n_episodes, n_val)) {
    mask[static_cast<std::size_t>(episode)] = true;
  }
  return mask;
}

std::vector<bool> DownsampleMask(const std::vector<bool>& mask,
                                 std::optional<std::int64_t> max_episodes, std::uint64_t seed) {
  if (!max_episodes) return mask;
  if (*max_episodes < 0) {
    throw Error(ErrorCode::kConfig,
                fmt::format("max_train_episodes is {}; leave it out (or null) for all episodes",
                            *max_episodes));
  }
  std::vector<std::size_t> episodes;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) episodes.push_back(i);
  }
  const auto n_episodes = static_cast<std::int64_t>(episodes.size());
  if (n_episodes <= *max_episodes) return mask;

  std::vector<bool> kept(mask.size(), false);
  for (const std::int64_t choice : NumpyChoice(seed, n_episodes, *max_episodes)) {
    kept[episodes[static_cast<std::size_t>(choice)]] = true;
  }
  return kept;
}

Split SplitEpisodes(std::int64_t n_episodes, double val_ratio,
                    std::optional<std::int64_t> max_train_episodes, std::uint64_t seed) {
  Split split;
  split.val = ValidationMask(n_episodes, val_ratio, seed);
  split.train = split.val;
  split.train.flip();
  split.train = DownsampleMask(split.train, max_train_episodes, seed);
  return split;
}

}  // namespace dp_bench
