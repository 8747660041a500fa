// Selects the episodes for training and validation like diffusion_policy's get_val_mask and
// downsample_mask (common/sampler.py), episode for episode.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dp_bench::data {

/// True for the episodes of the validation set. `val_ratio` 0 gives none; any other ratio gives
/// round(n * val_ratio) (halves to even), but leaves at least one episode on each side. A single
/// episode stays with training. Throws Error{kConfig} unless 0 <= val_ratio <= 1.
std::vector<bool> ValidationMask(std::int64_t n_episodes, double val_ratio, std::uint64_t seed);

/// Keeps `max_episodes` of the true entries, or all of them if there are not more, or if there is
/// no limit. Throws Error{kConfig} on a negative limit.
std::vector<bool> DownsampleMask(const std::vector<bool>& mask,
                                 std::optional<std::int64_t> max_episodes, std::uint64_t seed);

/// The episodes to train on and those to validate on.
struct Split {
  std::vector<bool> train;
  std::vector<bool> val;
};

/// Both masks, as in upstream's datasets: training gets the complement of the validation mask,
/// downsampled with the same seed.
Split SplitEpisodes(std::int64_t n_episodes, double val_ratio,
                    std::optional<std::int64_t> max_train_episodes, std::uint64_t seed);

// numpy's Generator.choice without replacement, bit for bit: SeedSequence (O'Neill's seed_seq
// design) seeds a PCG64 XSL-RR generator (O'Neill 2014); bounded integers after Lemire 2019 ("Fast
// random integer generation in an interval"). Only splits use it, so that they equal
// diffusion_policy's.

/// `numpy.random.default_rng(seed).choice(n, size, replace=False)`, in numpy's order.
/// Throws Error{kInternal} unless 0 <= size <= n.
std::vector<std::int64_t> NumpyChoice(std::uint64_t seed, std::int64_t n, std::int64_t size);

}  // namespace dp_bench::data
