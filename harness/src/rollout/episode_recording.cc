#include "rollout/episode_recording.h"

#include <fmt/format.h>

#include "core/atomic_file.h"
#include "run/run_files.h"
#include "run/safetensors.h"

namespace dp_bench::rollout {

std::filesystem::path RecordedFile(std::uint64_t seed) {
  return std::filesystem::path(run::kRecordingFolder) / fmt::format("test_{}.safetensors", seed);
}

EpisodeRecording::EpisodeRecording(const EnvSpec& env)
    : obs_(env), steps_(data::RecordedKeys(env)) {}

std::span<const std::span<std::byte>> EpisodeRecording::Observe(Env& env) {
  obs_.Observe(env);
  return obs_.buffers();
}

void EpisodeRecording::AddStep(std::span<const std::span<std::byte>> obs,
                               std::span<const float> action) {
  std::vector<std::span<const std::byte>> values(obs.begin(), obs.end());
  values.push_back(std::as_bytes(action));
  steps_.Append(values);
}

void EpisodeRecording::Write(const std::filesystem::path& file) const {
  core::CreateFolders(file.parent_path());
  run::WriteSafetensors(file, steps_.ToArrays());
}

}  // namespace dp_bench::rollout
