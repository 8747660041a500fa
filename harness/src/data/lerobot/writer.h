// Writes LeRobot datasets of versions 2.1 and 3.0, at first as one file per episode
// (data/reader/unfinished_dataset.h). Finish puts these files together under their names. Images
// are PNG files in the Parquet files, or videos, which are encoded or copied from a LeRobot
// dataset.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/episode_source.h"
#include "data/lerobot/meta_files.h"
#include "data/reader/unfinished_dataset.h"
#include "dp_bench/dataset_writer.h"

namespace dp_bench::core {
class ThreadPool;
}

namespace dp_bench::media {
struct VideoOptions;
}

namespace dp_bench::lerobot {

/// A feature that is written, and the keys that it is put together from.
struct FeatureConfig {
  std::string name;
  std::vector<std::string> keys;      // one for a camera
  std::vector<std::string> channels;  // a name per number; none for "<key>" and "<key>.<i>"
};

/// {"path": "data/pusht_lerobot", "source": "...", "features": {"observation.state": {"keys":
/// ["agent_pos"]}, "action": {"keys": ["action"]}}}.
struct LeRobotWriterConfig {
  std::filesystem::path path;
  std::string source;
  Version version = Version::kV30;
  std::optional<std::string> robot_type;
  double data_file_mb = 100.0;
  double video_file_mb = 200.0;
  std::string codec = "auto";  // or "png", "h264", "hevc", "av1"
  int crf = 30;
  SourceConfig recorded = {};
  std::vector<FeatureConfig> features;

  static LeRobotWriterConfig FromConfig(const Config& params);
};

class LeRobotWriter final : public DatasetWriter {
 public:
  static std::unique_ptr<DatasetWriter> Create(const Config& params, const DatasetSpec& spec);

  LeRobotWriter(LeRobotWriterConfig config, const DatasetSpec& spec);
  ~LeRobotWriter() override;

  std::int64_t n_episodes() const override;
  void BeginEpisode(const EpisodeHead& head) override;
  void Append(std::span<const std::span<const std::byte>> values) override;
  void Finish() override;
  std::vector<std::string> Notes() const override { return notes_; }

 private:
  struct Track;

  void AddTrack(const FeatureConfig& config, const DatasetSpec& spec);
  void AddCamera(const FeatureConfig& config, const KeySpec& key, Track* track);
  void AddEncodedCamera(bool is_again, Track* track);
  void AddNumbers(const FeatureConfig& config, std::span<const KeySpec* const> keys, Track* track);
  void AddOtherColumns();
  void RequireAllKeys(const DatasetSpec& spec) const;
  void ReadEpisodes();
  nlohmann::json Identity() const;
  nlohmann::json KeySources() const;
  void EndEpisode();
  void EndImages(Track& track, ParquetTable* table);
  void CopyVideo(const Track& track) const;
  media::VideoOptions OptionsOf(const Track& track) const;
  std::filesystem::path EpisodeFile(std::int64_t episode) const;
  std::filesystem::path NotesFile(std::int64_t episode) const;
  std::filesystem::path VideoFile(const std::string& camera, std::int64_t episode) const;
  nlohmann::json SizesOf(std::int64_t episode) const;

  LeRobotWriterConfig config_;
  EpisodeSource recorded_;
  std::vector<CopiedColumn> columns_;  // that are copied
  std::vector<std::string> notes_;
  std::vector<KeySpec> keys_;
  std::unique_ptr<reader::UnfinishedDataset> unfinished_;
  WrittenDataset dataset_;       // its features are those of the tracks, and columns_
  std::int64_t n_steps_ = 0;     // of complete episodes
  EpisodeHead head_;             // of the current episode
  std::int64_t n_appended_ = 0;  // its steps so far
  std::vector<std::unique_ptr<Track>> tracks_;
  std::unique_ptr<core::ThreadPool> pool_;  // last: its jobs use the tracks
};

}  // namespace dp_bench::lerobot
