// Writes the files of a LeRobot dataset, versions 2.1 and 3.0: the folder meta/, and data and
// videos, which are put together from one file per episode. Files are not durable: the folder is,
// once core::AtomicFolder committed it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/metadata.h"
#include "data/lerobot/statistics.h"
#include "dp_bench/spec.h"

namespace dp_bench::media {
struct VideoOptions;
}

namespace dp_bench::lerobot {

inline constexpr std::int64_t kChunksSize = 1000;  // files per folder, LeRobot's default
inline constexpr double kBytesPerMb = 1 << 20;

/// A feature that is written: numbers, or a camera whose images are in the Parquet files or in
/// videos.
struct WrittenFeature {
  std::string name;
  KeyType type = KeyType::kLowDim;
  std::int64_t n = 0;                 // numbers
  std::vector<std::string> channels;  // a name per number; may be empty
  int width = 0;                      // of images [px]
  int height = 0;                     // [px]
  bool is_video = false;
  double image_unit = 1.0;  // of depth [mm], as LeRobot's statistics of it
  /// What info.json says; made from the fields above if it is null.
  nlohmann::ordered_json entry;

  bool is_camera() const { return type != KeyType::kLowDim; }
  int n_channels() const { return type == KeyType::kRgb ? 3 : 1; }  // of images
};

/// What meta/ says about an episode.
struct WrittenEpisode {
  std::int64_t length = 0;  // frames
  std::string task;
  FileNumber data;  // version 3.0
  std::map<std::string, FeatureStatistics> statistics;
  std::map<std::string, VideoPlace> videos;  // by feature
};

struct WrittenDataset {
  Version version = Version::kV30;
  double fps = 0.0;                  // [Hz]
  std::optional<std::string> robot;  // its type
  double data_file_mb = 100.0;       // [MiB] files of version 3.0 are not larger
  double video_file_mb = 200.0;      // [MiB]
  std::vector<WrittenFeature> features;
  std::vector<WrittenEpisode> episodes;  // at least one

  /// In the order of their first episodes.
  std::vector<std::string> Tasks() const;
};

/// The entry of a feature in info.json whose images are in videos that dp_bench encoded. `preset`
/// is that of the encoder as LeRobot says it: a number, a name or null.
nlohmann::ordered_json VideoEntry(const WrittenFeature& feature, const media::VideoOptions& options,
                                  const nlohmann::ordered_json& preset);

/// What the file of an episode says for the Python package `datasets`: {"info": ...}.
std::string DescribeColumns(std::span<const WrittenFeature> features);

/// Writes the data files into `root`, and notes in the episodes where they are. `file_of` gives the
/// table of an episode. Throws Error{kIo}.
void WriteDataFiles(const std::filesystem::path& root,
                    const std::function<std::filesystem::path(std::int64_t)>& file_of,
                    WrittenDataset* dataset);

/// Writes the video files of a camera into `root`, without encoding anything again, and notes in
/// the episodes where they are. `file_of` gives the video of an episode, which has all its frames.
/// Throws Error{kMedia} or Error{kIo}.
void WriteVideoFiles(const std::filesystem::path& root, const std::string& camera,
                     const std::function<std::filesystem::path(std::int64_t)>& file_of,
                     WrittenDataset* dataset);

/// Writes meta/ into `root`. Throws Error{kIo}.
void WriteMeta(const std::filesystem::path& root, const WrittenDataset& dataset);

}  // namespace dp_bench::lerobot
