// A person's episodes as a dataset: a replay buffer like those that `collect` writes.
#pragma once

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

/// Identifies the dataset of a person's episodes in an env. `env_section`: {"plugin", "params"}
/// with all defaults, as JSON text.
nlohmann::json DemonstrationOrigin(const std::string& env_section, const std::string& env_version);

/// Appends to a dataset, one episode at a time.
class DemonstrationRecorder {
 public:
  /// Continues the dataset in `folder`, or creates it. `env` must outlive this object. Throws what
  /// ReplayWriter throws: a folder of another origin is not changed.
  DemonstrationRecorder(Env& env, const std::filesystem::path& folder,
                        const nlohmann::json& origin);

  /// Called after the env was Reset. Drops the episode that was not kept.
  void Begin(std::uint64_t seed);

  /// Observes the env's current state; `action` is about to be executed.
  void Add(std::span<const float> action);

  /// Appends the episode to the dataset, which is then complete on disk. Returns its number of
  /// episodes.
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
