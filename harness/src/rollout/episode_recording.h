// The steps of one episode as a dataset stores them, in a file until the dataset is written:
// episodes end in any order, and a kill must lose none that has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "data/replay_writer.h"
#include "dp_bench/env.h"
#include "plugin/obs_memory.h"

namespace dp_bench::rollout {

/// In a run folder: "recording/test_100003.safetensors", with ReplayEpisode::ToArrays.
std::filesystem::path RecordedFile(std::uint64_t seed);

/// Images are compressed as they arrive. Used by the thread that uses the env.
class EpisodeRecording {
 public:
  explicit EpisodeRecording(const EnvSpec& env);

  /// The env's current observation, valid until the next call. For steps that the policy does not
  /// observe.
  std::span<const std::span<std::byte>> Observe(Env& env);

  /// Appends a step: the observation before it, one buffer per key of the env, and the action that
  /// the env is given.
  void AddStep(std::span<const std::span<std::byte>> obs, std::span<const float> action);

  /// Writes the file, durably. Throws Error{kIo}.
  void Write(const std::filesystem::path& file) const;

 private:
  plugin::ObsMemory obs_;
  data::ReplayEpisode steps_;
};

}  // namespace dp_bench::rollout
