// One env instance whose expert plays one episode after the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/replay_writer.h"
#include "dp_bench/env.h"
#include "dp_bench/env_abilities.h"

namespace dp_bench {

/// What came of one seed.
struct ExpertEpisode {
  std::uint64_t seed = 0;
  ReplayEpisode steps;  // (observation, the action issued for it)
  bool success = false;
  bool is_whole = false;  // it was played to its end: nothing was thrown
  std::string failure;    // why it was no success
};

/// What all runners of a collection share; constant while they live.
struct ExpertPlan {
  std::function<std::unique_ptr<Env>()> env_factory;  // envs with an expert
  EnvSpec env;
  std::vector<KeySpec> keys;      // what is recorded: the env's obs, then its action
  std::vector<double> noise_std;  // [Da]
  const std::atomic<bool>* stop = nullptr;
};

/// Used by one thread at a time.
class ExpertRunner {
 public:
  /// `plan` must outlive the runner.
  explicit ExpertRunner(const ExpertPlan& plan);

  /// Plays until the env terminates or reports success, or for max_steps. With noise, the env
  /// executes a perturbed action while the expert's own is recorded, so that the data show the way
  /// back (Laskey et al. 2017, "DART: Noise Injection for Robust Imitation Learning"). Whatever env
  /// or expert throw becomes the reason of a failure. Nothing when `stop` ended it.
  std::optional<ExpertEpisode> Run(std::uint64_t seed);

 private:
  bool Play(ExpertEpisode* episode);
  void Record(ReplayEpisode* steps);
  std::span<const float> Perturb(std::uint64_t seed, std::int64_t step);

  const ExpertPlan& plan_;
  std::unique_ptr<Env> env_;
  std::vector<std::vector<std::byte>> obs_;
  std::vector<std::span<std::byte>> obs_buffers_;
  std::vector<float> action_;    // [Da], the expert's
  std::vector<float> executed_;  // [Da]
};

}  // namespace dp_bench
