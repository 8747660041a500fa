// Episodes of a dataset to look at. Their actions are repeated in the env of the recording. If the
// dataset does not have the seeds, its images are shown instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "view/action_source.h"

namespace dp_bench::view {

/// First and one past the last step of an episode of `dataset`. Throws Error{kUsage} with the
/// number of episodes if there is no such episode.
struct StepRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
StepRange StepsOfEpisode(const Dataset& dataset, std::uint64_t episode);

/// The actions of the episodes of a dataset.
class RecordedSource final : public ActionSource {
 public:
  /// `seeds`: one per episode; empty if the env is reset to the place of the episode instead.
  /// `dataset` must outlive the source. Throws Error{kShape} if its actions do not have
  /// `action_dim` numbers, Error{kData} on a wrong number of seeds.
  RecordedSource(const Dataset& dataset, std::vector<std::uint64_t> seeds, std::int64_t action_dim);

  std::string_view name() const override { return "dataset"; }
  std::optional<std::uint64_t> SeedOf(std::uint64_t episode) const override;
  bool is_recording() const override { return true; }
  bool has_rewards() const override { return !seeds_.empty(); }
  void Begin(std::uint64_t episode) override;
  Supply Next(std::span<float> action) override;

 private:
  const Dataset& dataset_;
  std::vector<std::uint64_t> seeds_;
  std::vector<float> actions_;  // [N, Da] of the episode
  std::size_t next_ = 0;        // element of `actions_`
};

/// The images of a dataset as an env. Reset goes to an episode's place, and each step shows the
/// next recorded image. The rewards are 0, because a recording has none.
class RecordedEnv final : public Env {
 public:
  /// `dataset` must outlive the env and is played at `control_hz`. Throws Error{kUsage} when it has
  /// no rgb key.
  RecordedEnv(const Dataset& dataset, double control_hz);

  /// The size of all rgb keys side by side [px].
  int width() const { return mosaic_.width; }
  int height() const { return mosaic_.height; }

 private:
  void DoReset(std::uint64_t episode) override;
  StepResult DoStep(std::span<const float> action) override;
  void DoObserve(const ObsWriter& obs) override;
  // All rgb keys side by side, stretched to the frame.
  void DoRender(RgbImage* frame) override;

  const Dataset& dataset_;
  std::vector<int> rgb_keys_;  // dataset keys
  RgbImage mosaic_;
  std::vector<std::byte> picture_;
  StepRange steps_;
  std::int64_t step_ = 0;  // within the dataset
};

}  // namespace dp_bench::view
