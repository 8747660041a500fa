#include "data/sequence_sampler.h"

#include <cstddef>
#include <span>
#include <utility>

#include "core/console.h"
#include "core/errors.h"

namespace dp_bench::data {

SequenceSampler::SequenceSampler(const SequenceSamplerOptions& options)
    : horizon_(options.horizon),
      num_steps_(options.episode_ends.empty() ? 0 : options.episode_ends.back()) {
  if (horizon_ < 1) throw ConfigError("horizon is {}; expected at least 1", horizon_);
  const std::vector<std::int64_t>& ends = options.episode_ends;
  const std::vector<bool>& mask = options.episode_mask;
  if (!mask.empty() && mask.size() != ends.size()) {
    throw DataError("an episode mask of {} entries for {} episodes", mask.size(), ends.size());
  }

  // more padding than T - 1 would give windows without any step of the episode
  const int pad_before = std::clamp(options.pad_before, 0, horizon_ - 1);
  const int pad_after = std::min(options.pad_after, horizon_ - 1);

  std::int64_t begin = 0;
  for (std::size_t episode = 0; episode < ends.size(); ++episode) {
    const std::int64_t end = ends[episode];
    if (end <= begin) {
      throw DataError("episode {} ends at step {}, but begins at {}", episode, end, begin);
    }
    if (mask.empty() || mask[episode]) AddEpisode(begin, end, pad_before, pad_after);
    begin = end;
  }
}

void SequenceSampler::AddEpisode(std::int64_t begin, std::int64_t end, int pad_before,
                                 int pad_after) {
  const std::int64_t last_start = end - horizon_ + pad_after;
  for (std::int64_t start = begin - pad_before; start <= last_start; ++start) {
    Sequence sequence{.begin = std::max(start, begin), .end = std::min(start + horizon_, end)};
    sequence.n_pad_front = static_cast<int>(sequence.begin - start);
    sequence.n_pad_back = static_cast<int>(start + horizon_ - sequence.end);
    sequences_.push_back(sequence);
  }
}

const Sequence& SequenceSampler::at(std::int64_t i) const {
  if (i < 0 || i >= size()) throw InternalError("there is no sequence {} of {}", i, size());
  return sequences_[static_cast<std::size_t>(i)];
}

namespace {

// The current step of the last sequence is drop_n_last_frames before the last of its episode.
int PadAfter(const Horizons& horizons) {
  return horizons.horizon - horizons.n_obs_steps - horizons.n_dropped_last_frames();
}

}  // namespace

void RequireSequences(const Dataset& dataset, const Horizons& horizons,
                      const std::vector<bool>& episode_mask) {
  const std::int64_t n_padded = horizons.n_obs_steps - 1 + PadAfter(horizons);
  struct Amount {
    std::int64_t n_episodes = 0;
    std::int64_t n_steps = 0;
  } all, unused;
  std::int64_t begin = 0;
  std::int64_t longest = 0;
  for (std::size_t episode = 0; episode < dataset.episode_ends().size(); ++episode) {
    const std::int64_t end = dataset.episode_ends()[episode];
    const std::int64_t length = end - begin;
    begin = end;
    if (!episode_mask.empty() && !episode_mask[episode]) continue;
    longest = std::max(longest, length);
    for (Amount* amount : {&all, &unused}) {
      if (amount == &unused && horizons.horizon <= length + n_padded) continue;
      ++amount->n_episodes;
      amount->n_steps += length;
    }
  }
  if (unused.n_episodes == 0) return;
  if (unused.n_episodes < all.n_episodes) {
    core::LogWarning(
        "{} of {} episodes ({} of {} steps) are shorter than horizon {} less padding and are not "
        "used: an episode needs {} steps",
        unused.n_episodes, all.n_episodes, unused.n_steps, all.n_steps, horizons.horizon,
        horizons.horizon - n_padded);
    return;
  }
  if (horizons.drop_n_last_frames) {
    throw ConfigError(
        "drop_n_last_frames is {}, but the longest training episode has {} steps: nothing is left "
        "of it. Lower drop_n_last_frames to {} or less.",
        *horizons.drop_n_last_frames, longest, longest - 1);
  }
  throw ConfigError(
      "horizon is {}, longer than any training episode: the longest has {} steps, and {} more are "
      "padded (n_obs_steps + n_action_steps - 2). Lower horizon to {} or less, or train on longer "
      "episodes.",
      horizons.horizon, longest, n_padded, longest + n_padded);
}

SequenceSampler MakeTrainingSampler(const Dataset& dataset, const Horizons& horizons,
                                    std::vector<bool> episode_mask) {
  const std::span<const std::int64_t> ends = dataset.episode_ends();
  return SequenceSampler({.episode_ends = {ends.begin(), ends.end()},
                          .horizon = horizons.horizon,
                          .pad_before = horizons.n_obs_steps - 1,
                          .pad_after = PadAfter(horizons),
                          .episode_mask = std::move(episode_mask)});
}

}  // namespace dp_bench::data
