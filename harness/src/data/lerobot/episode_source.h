// The LeRobot datasets that episodes come from: what can be copied from their files as it is,
// compressed videos and columns that no key shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/metadata.h"
#include "data/lerobot/statistics.h"
#include "dp_bench/config.h"

namespace dp_bench::media {
struct VideoPart;
}

namespace dp_bench::lerobot {

class ParquetTable;

/// A LeRobot dataset that episodes come from.
struct SourceFolder {
  std::filesystem::path path;
  std::map<std::string, std::string> features;  // that the keys were read from, by key
};

/// Where the episodes are recorded, if they come from LeRobot datasets.
struct SourceConfig {
  std::vector<SourceFolder> folders;
  std::vector<std::int64_t> folder_of;   // index in `folders`, by episode that is written
  std::vector<std::int64_t> episode_of;  // index in the folder
  std::int64_t drop_first = 0;           // frames that are left out of every episode
  std::int64_t drop_last = 0;
  bool only_keys = false;  // features that could have been keys are not copied

  static SourceConfig FromConfig(const Config& recorded);
};

/// The videos that a key was read from.
struct RecordedVideo {
  bool is_video = false;         // in any of the folders
  bool is_depth = false;         // of the first folder
  std::string obstacle;          // why they cannot be copied; empty if they can
  std::string codec;             // "av1"
  nlohmann::ordered_json entry;  // of info.json: "features"
  double depth_unit = 1.0;       // [mm] of LeRobot's statistics
};

/// A column of the Parquet files that is copied with all its values.
struct CopiedColumn {
  std::string name;
  nlohmann::ordered_json entry;  // of info.json: "features"
  std::int64_t n_numbers = 0;    // per frame; 0 for texts
  std::int64_t n_pooled = 0;     // of these, as many have statistics of their own
};

class EpisodeSource {
 public:
  /// Reads meta/ of the folders. Throws Error{kData} or Error{kIo} naming the file.
  explicit EpisodeSource(const SourceConfig& config);

  /// None if the episodes do not come from LeRobot datasets.
  bool is_empty() const { return config_.folders.empty(); }

  /// That are written.
  std::int64_t n_episodes() const { return std::ssize(config_.episode_of); }

  /// robot_type of info.json; none if a folder has none or they differ, of which a line is appended
  /// to `notes`.
  std::optional<std::string> RobotType(std::vector<std::string>* notes) const;

  RecordedVideo FindVideo(const std::string& key) const;

  /// The frames of an episode that is written.
  media::VideoPart VideoOf(const std::string& key, std::int64_t episode) const;

  /// The statistics of its images before they were encoded; none if the files do not have all of
  /// them.
  std::optional<FeatureStatistics> StatisticsOf(const std::string& key, std::int64_t episode) const;

  /// What info.json says about the feature that a key was read from, if the key is a list of all
  /// its `n` numbers in their order; or else null. `channels` are the names of the key's numbers.
  nlohmann::ordered_json FindEntry(const std::string& key, const std::vector<std::string>& channels,
                                   std::int64_t n) const;

  /// The column that a key was read from, if it is not a list of float32 numbers, which the writer
  /// makes from the key. `n` is the size of the key, and `channels` are the names of its numbers.
  std::optional<CopiedColumn> FindColumn(const std::string& key,
                                         const std::vector<std::string>& channels,
                                         std::int64_t n) const;

  /// Columns that no key was read from, and that all folders have. Names of others are appended to
  /// `left_out`, each with the reason.
  std::vector<CopiedColumn> OtherColumns(std::vector<std::string>* left_out) const;

  /// Adds the values of `n_frames` frames of an episode that is written to `table`, and their
  /// statistics to `statistics`.
  void Copy(std::span<const CopiedColumn> columns, std::int64_t episode, std::int64_t n_frames,
            ParquetTable* table, std::map<std::string, FeatureStatistics>* statistics) const;

 private:
  struct Folder {
    Metadata metadata;
    nlohmann::ordered_json features;       // of info.json
    nlohmann::ordered_json robot_type;     // of info.json; null if it has none
    std::vector<std::int64_t> first_rows;  // in the data file, by episode
    bool is_at_frames = true;              // the times of its rows
    std::map<std::string, std::vector<FeatureStatistics>> statistics;  // of videos, by episode
  };

  const Folder& FolderOf(std::int64_t episode) const;
  const std::string& FeatureOf(std::size_t folder, const std::string& key) const;
  bool IsShown(const std::string& feature) const;
  std::string ObstacleOf(const std::string& feature) const;

  SourceConfig config_;
  std::vector<Folder> folders_;
};

}  // namespace dp_bench::lerobot
