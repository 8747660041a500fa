// A template for your own dataset plugin, and cheap data for tests of the harness: an expert pushes
// the mass of the env `point_mass` onto its goal. The comments say what each part is for;
// docs/writing_a_plugin.md has the rest.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "dp_bench/dataset.h"

namespace dp_bench::synthetic {

/// Keys: `action` [2], force [N] within [-1, 1], points from the mass to the goal; `agent_pos` [2]
/// and `goal` [2] in m; `image` [3, image_size, image_size] on request. Params:
///   n_episodes      50
///   episode_length  40 steps, at 10 Hz
///   seed            0; each episode depends only on (seed, its index)
///   image_size      0; if positive, there is an `image`
class SyntheticDataset final : public Dataset {
 public:
  /// Reads every param it knows; the host refuses params that were not read. Data that can be wrong
  /// must be checked here, so that `Read` cannot fail in the middle of a training.
  explicit SyntheticDataset(const Config& params);

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return episode_ends_; }

 private:
  /// The loader calls it from several threads at once: it only reads members. Read has checked the
  /// range.
  void DoRead(int key, std::int64_t begin, std::int64_t end,
              std::span<std::byte> out) const override;

  // The low-dimensional keys of one step, in the order of the spec.
  struct Step {
    std::array<float, 2> action;
    std::array<float, 2> agent_pos;
    std::array<float, 2> goal;
  };

  void AppendEpisode(std::uint64_t seed, std::int64_t episode, std::int64_t length);

  DatasetSpec spec_;
  std::vector<std::int64_t> episode_ends_;
  std::vector<Step> steps_;
};

}  // namespace dp_bench::synthetic
