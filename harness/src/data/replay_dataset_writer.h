// Writes the episodes of any data set into a replay buffer (replay_writer.h).
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "data/replay_writer.h"
#include "dp_bench/dataset_writer.h"

namespace dp_bench::data {

class ReplayDatasetWriter final : public DatasetWriter {
 public:
  /// See DatasetWriter for `path` and `source`.
  ReplayDatasetWriter(const std::filesystem::path& path, const std::string& source,
                      const DatasetSpec& spec);

  std::int64_t n_episodes() const override { return writer_.n_episodes(); }
  void BeginEpisode(const EpisodeHead& head) override;
  void Append(std::span<const std::span<const std::byte>> values) override;
  void Finish() override;

 private:
  void Commit(bool is_complete);

  DatasetSpec spec_;
  ReplayWriter writer_;
  std::optional<ReplayEpisode> episode_;
  std::int64_t n_steps_ = 0;  // of the episode
  std::chrono::steady_clock::time_point last_commit_;
};

}  // namespace dp_bench::data
