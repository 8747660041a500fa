// Writes the folder meta/ of a LeRobot data set, versions 2.1 and 3.0. Files are not durable: the
// folder is, once core::AtomicFolder committed it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/metadata.h"
#include "data/lerobot/statistics.h"
#include "dp_bench/spec.h"

namespace dp_bench::lerobot {

/// A feature that is written: numbers, or a camera whose pictures are in the Parquet files.
struct WrittenFeature {
  std::string name;
  KeyType type = KeyType::kLowDim;
  std::int64_t n = 0;                 // numbers
  std::vector<std::string> channels;  // a name per number; may be empty
  int width = 0;                      // of pictures [px]
  int height = 0;                     // [px]

  bool is_camera() const { return type != KeyType::kLowDim; }
  int n_channels() const { return type == KeyType::kRgb ? 3 : 1; }  // of pictures
};

/// What meta/ says about an episode.
struct WrittenEpisode {
  std::int64_t length = 0;  // frames
  std::string task;
  FileNumber data;  // version 3.0
  std::map<std::string, FeatureStatistics> statistics;
};

struct WrittenDataset {
  Version version = Version::kV30;
  double fps = 0.0;                  // [Hz]
  std::optional<std::string> robot;  // its type
  double data_file_mb = 100.0;       // [MiB] files of version 3.0 are not larger
  std::vector<WrittenFeature> features;
  std::vector<WrittenEpisode> episodes;  // at least one

  /// In the order of their first episodes.
  std::vector<std::string> Tasks() const;
};

/// A new file of the data, relative to the folder.
std::filesystem::path DataPath(Version version, const FileNumber& number);

/// What the file of an episode says for the Python package `datasets`: {"info": ...}.
std::string DescribeColumns(std::span<const WrittenFeature> features);

/// LeRobot's own columns, which every data set has.
std::span<const char* const> IntegerColumns();

/// Writes meta/ into `root`. Throws Error{kIo}.
void WriteMeta(const std::filesystem::path& root, const WrittenDataset& dataset);

}  // namespace dp_bench::lerobot
