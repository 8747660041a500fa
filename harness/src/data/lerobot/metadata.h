// The folder meta/ of a LeRobot dataset, versions 2.0, 2.1 and 3.0 (the format that the Python
// package lerobot 0.1 to 0.6 writes). Everything in it is untrusted: sizes are checked before
// memory is allocated, and file names cannot lead out of the folder.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/config.h"
#include "dp_bench/dataset.h"

namespace dp_bench::core {
class JsonView;
}

namespace dp_bench::lerobot {

/// The numbers in the names of a file.
struct FileNumber {
  std::int64_t chunk = 0;
  std::int64_t file = 0;  // the episode in versions 2.0 and 2.1

  auto operator<=>(const FileNumber&) const = default;  // NOLINT(modernize-use-nullptr): not ours
};

/// A file name with numbers, such as "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet".
class PathTemplate {
 public:
  PathTemplate() = default;

  /// Throws Error{kData} beginning with `where` for anything but these fields: chunk_index or
  /// episode_chunk, file_index or episode_index, video_key.
  PathTemplate(std::string_view text, const std::string& where);

  /// A relative path. `camera` must be a name that RequireSafeName accepts.
  std::string Format(const FileNumber& number, const std::string& camera) const;

 private:
  std::string text_;
};

enum class Version { kV20, kV21, kV30 };

/// The 12-bit codes of a depth video: 0 is `min` and 4095 is `max` [m], in equal steps of metres,
/// or of log(metres + shift).
struct DepthCode {
  double min = 0.0;
  double max = 0.0;
  double shift = 0.0;
  bool is_logarithmic = true;

  friend bool operator==(const DepthCode&, const DepthCode&) = default;
};

/// One entry of "features" in info.json.
struct Feature {
  enum class Kind { kNumbers, kImage, kVideo, kOther };  // kOther: texts

  std::string name;
  Kind kind = Kind::kNumbers;
  Shape shape;                          // of numbers: at least one axis
  std::vector<std::string> channels;    // a name per number; none if there are no such names
  std::string names_fault;              // why info.json has names, but no such ones; or empty
  int width = 0;                        // of images [px]
  int height = 0;                       // [px]
  int n_channels = 0;                   // of images: 1, 3 or 4, the last with transparency
  bool is_depth = false;                // info.json says so
  std::optional<DepthCode> depth_code;  // of a depth video
  std::optional<double> depth_unit;     // of depth images: 1 or 0.001 [m]

  bool is_camera() const { return kind == Kind::kImage || kind == Kind::kVideo; }
};

/// The frames of an episode in a video file.
struct VideoPlace {
  FileNumber file;
  double from_timestamp = 0.0;  // [s] of the first frame
  double to_timestamp = 0.0;    // [s] of the one after the last; only what is written has it
};

struct Episode {
  std::int64_t length = 0;  // [frames]
  std::vector<std::string> tasks;
  FileNumber data;
  std::optional<std::int64_t> first_row;  // of all rows, if the files say it
};

struct Metadata {
  std::filesystem::path root;
  Version version = Version::kV30;
  double fps = 0.0;  // [Hz]
  std::map<std::string, Feature> features;
  std::map<std::int64_t, std::string> tasks;              // by task_index
  std::vector<Episode> episodes;                          // by episode_index
  std::map<std::string, std::vector<VideoPlace>> videos;  // per camera, by episode_index

  std::filesystem::path DataFile(const FileNumber& number) const;
  std::filesystem::path VideoFile(const std::string& camera, const FileNumber& number) const;

  PathTemplate data_path;
  PathTemplate video_path;
};

/// LeRobot's own columns of integers. Every dataset has them, and "timestamp".
inline constexpr std::array kIntegerColumns = {"frame_index", "episode_index", "index",
                                               "task_index"};

/// Whether a feature is one of these columns.
bool IsOwnColumn(std::string_view feature);

/// Reads info.json, the tasks and the table of episodes. `max_bytes` bounds the memory for each
/// table. Throws Error{kData} or Error{kIo} naming the file.
Metadata ReadMetadata(const std::filesystem::path& root, std::int64_t max_bytes);

/// Calls `use` with each line of a file of JSON objects. `max_bytes` bounds a line. Throws
/// Error{kData} or Error{kIo} naming file and line.
void ReadJsonLines(const std::filesystem::path& path, std::int64_t max_bytes,
                   const std::function<void(const core::JsonView&)>& use);

/// The files of the table of episodes of version 3.0, in the order of their names. Throws
/// Error{kData} if there is none.
std::vector<std::filesystem::path> EpisodeFiles(const std::filesystem::path& root);

/// The file in which dp_bench notes which keys the features of a dataset that it wrote were put
/// together from: {"keys": <as in dataset.params.keys>}. LeRobot ignores it.
inline constexpr const char* kKeySourcesFile = "meta/dp_bench.json";

/// The value of "keys"; none if the dataset at `root` has no such file. Throws Error{kData} or
/// Error{kIo} if it is damaged.
std::optional<Config> ReadKeySources(const std::filesystem::path& root);

}  // namespace dp_bench::lerobot
