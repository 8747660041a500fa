// Which steps make up each training sequence: diffusion_policy's create_indices and sample_sequence
// (common/sampler.py). A sequence may extend beyond either edge of its episode; the steps there
// repeat the one at the edge.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/spec.h"

namespace dp_bench::data {

struct SequenceSamplerOptions {
  std::vector<std::int64_t> episode_ends;  // as Dataset::episode_ends()
  int horizon = 16;                        // T, steps of a sequence
  int pad_before = 0;                      // n_obs_steps - 1; at most T - 1 is used
  int pad_after = 0;                       // at most T - 1 is used; below 0, the sequences end
                                           // that many steps before the episode
  std::vector<bool> episode_mask;          // episodes to use; empty: all of them
};

/// A window of T steps: n_pad_front times step `begin`, the steps [begin, end), n_pad_back times
/// step end - 1.
struct Sequence {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  int n_pad_front = 0;
  int n_pad_back = 0;

  bool operator==(const Sequence&) const = default;
};

/// All windows of the chosen episodes, ordered by episode and start. Does not change after
/// construction.
class SequenceSampler {
 public:
  /// Throws Error{kConfig} if the horizon is below 1, Error{kData} if the mask does not fit the
  /// episodes or their ends do not increase.
  explicit SequenceSampler(const SequenceSamplerOptions& options);

  std::int64_t size() const { return static_cast<std::int64_t>(sequences_.size()); }
  int horizon() const { return horizon_; }

  /// The number of steps of the dataset, according to the episode ends.
  std::int64_t num_steps() const { return num_steps_; }

  /// `i` within [0, size()); throws Error{kInternal} otherwise.
  const Sequence& at(std::int64_t i) const;

 private:
  void AddEpisode(std::int64_t begin, std::int64_t end, int pad_before, int pad_after);

  int horizon_;
  std::int64_t num_steps_;
  std::vector<Sequence> sequences_;
};

/// Throws Error{kConfig}, with a number that would fit, if the horizon is too long for all of these
/// episodes, or drop_n_last_frames leaves nothing of them: MakeTrainingSampler would find no
/// sequence. Passes if there are no episodes. Warns if some of them give none.
void RequireSequences(const Dataset& dataset, const Horizons& horizons,
                      const std::vector<bool>& episode_mask = {});

/// The sequences that a policy with these horizons trains on, in the episodes of the mask (empty:
/// in all). As in upstream, they extend beyond the edges by To - 1 steps at the front and Ta - 1 at
/// the back. With Horizons::drop_n_last_frames, the back follows from that.
SequenceSampler MakeTrainingSampler(const Dataset& dataset, const Horizons& horizons,
                                    std::vector<bool> episode_mask = {});

// Which rows of a batch belong to which of several processes.

/// The share of process `index` of `count`. Shares are contiguous and in the order of the
/// processes. Their sizes differ by at most one; the first processes have the larger ones. So
/// process 0 has a row of every batch, and the last ones have none if there are fewer rows than
/// processes.
struct Shard {
  int index = 0;
  int count = 1;

  /// The first row of its share of `n_rows`.
  std::int64_t Begin(std::int64_t n_rows) const {
    return index * (n_rows / count) + std::min<std::int64_t>(index, n_rows % count);
  }
  std::int64_t Size(std::int64_t n_rows) const {
    return n_rows / count + (index < n_rows % count ? 1 : 0);
  }
};

}  // namespace dp_bench::data
