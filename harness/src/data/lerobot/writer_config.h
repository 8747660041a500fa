// The params of the writer of LeRobot data sets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/lerobot/metadata.h"
#include "dp_bench/config.h"

namespace dp_bench::lerobot {

/// A feature that is written, and the keys that it is put together from.
struct FeatureConfig {
  std::string name;
  std::vector<std::string> keys;      // one for a camera
  std::vector<std::string> channels;  // a name per number; none for "<key>" and "<key>.<i>"
};

/// A LeRobot data set that episodes come from.
struct SourceFolder {
  std::filesystem::path path;
  std::map<std::string, std::string> features;  // that the keys were read from, by key
};

/// Where the episodes are recorded, if they come from LeRobot data sets.
struct SourceConfig {
  std::vector<SourceFolder> folders;
  std::vector<std::int64_t> folder_of;   // index in `folders`, by episode that is written
  std::vector<std::int64_t> episode_of;  // index in the folder
  std::int64_t drop_first = 0;           // frames that are left out of every episode
  std::int64_t drop_last = 0;
  bool only_keys = false;  // features that could have been keys are not copied
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

}  // namespace dp_bench::lerobot
