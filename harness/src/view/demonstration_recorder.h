// What a person did, as a dataset: a replay buffer like those that `collect` writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "data/replay_writer.h"
#include "dp_bench/env.h"
#include "plugin/obs_memory.h"

namespace dp_bench::view {

/// Names the dataset that a person records in an env. `env_section`: {"plugin", "params"} with all
/// defaults, as JSON text.
nlohmann::json DemonstrationOrigin(const std::string& env_section, const std::string& env_version);

/// The seeds of the episodes of a dataset folder, when their actions were recorded as they were
/// executed, so that they repeat the episodes; empty when not, or when the folder does not tell.
/// Throws Error{kUsage} when it was recorded in another env plugin than `env`, Error{kData} when
/// what it tells makes no sense.
std::vector<std::uint64_t> RepeatableSeeds(const std::filesystem::path& folder,
                                           const std::string& env);

/// Appends to a dataset, one episode at a time.
class DemonstrationRecorder {
 public:
  /// Continues the dataset in `folder`, or makes it. `env` must outlive this object. Throws what
  /// ReplayWriter throws: a folder of another origin stays as it is.
  DemonstrationRecorder(Env& env, const std::filesystem::path& folder,
                        const nlohmann::json& origin);

  /// The env was just Reset: what was not kept is forgotten.
  void Begin(std::uint64_t seed);

  /// Observes the env's current state; `action` is about to be executed in it.
  void Add(std::span<const float> action);

  /// Makes the episode part of the dataset, which is whole on disk afterwards. Returns how many
  /// episodes it holds.
  std::int64_t Keep();

 private:
  Env& env_;
  std::vector<KeySpec> keys_;  // the env's obs, then its action
  data::ReplayWriter writer_;
  std::vector<std::uint64_t> seeds_;  // of the episodes in the dataset
  std::uint64_t seed_ = 0;
  data::ReplayEpisode episode_;
  plugin::ObsMemory obs_;
};

}  // namespace dp_bench::view
