#include "data/replay_dataset_writer.h"

#include <fmt/format.h>

#include "data/zarr/attributes.h"
#include "dp_bench/error.h"

namespace dp_bench::data {
namespace {

constexpr std::chrono::seconds kCommitInterval{2};

// Returns `path`, or refuses it.
const std::filesystem::path& RequireUnfinished(const std::filesystem::path& path) {
  const nlohmann::json attributes = ReadReplayAttributes(path);
  if (attributes.is_object() && attributes.value(zarr::kCompleteAttribute, false)) {
    throw Error(
        ErrorCode::kUsage,
        fmt::format("{} exists; give another output folder, or remove this one", path.string()));
  }
  return path;
}

}  // namespace

ReplayDatasetWriter::ReplayDatasetWriter(const std::filesystem::path& path,
                                         const std::string& source, const DatasetSpec& spec)
    : spec_(spec),
      writer_(RequireUnfinished(path), spec.keys, {{"source", source}}),
      last_commit_(std::chrono::steady_clock::now()) {}

void ReplayDatasetWriter::BeginEpisode(const EpisodeHead& head) {
  episode_.emplace(spec_.keys);
  n_steps_ = head.n_steps;
}

void ReplayDatasetWriter::Append(std::span<const std::span<const std::byte>> values) {
  episode_->Append(values);
  if (episode_->n_steps() < n_steps_) return;
  writer_.Append(*episode_);
  episode_.reset();
  if (std::chrono::steady_clock::now() - last_commit_ < kCommitInterval) return;
  Commit(/*is_complete=*/false);
}

void ReplayDatasetWriter::Finish() {
  if (n_episodes() == 0) {
    throw Error(ErrorCode::kUsage, "the data set would have no episode");
  }
  Commit(/*is_complete=*/true);
}

void ReplayDatasetWriter::Commit(bool is_complete) {
  nlohmann::json attributes = nlohmann::json::object();
  if (spec_.fps > 0.0) attributes[zarr::kFpsAttribute] = spec_.fps;
  writer_.Commit(attributes, is_complete);
  last_commit_ = std::chrono::steady_clock::now();
}

}  // namespace dp_bench::data
