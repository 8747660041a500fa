// The folder meta/ of a LeRobot data set, versions 2.0, 2.1 and 3.0 (the format that the Python
// package lerobot 0.1 to 0.6 writes). Everything in it is untrusted: sizes are checked before
// memory is allocated, and file names cannot lead out of the folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "dp_bench/array.h"
#include "dp_bench/dataset.h"

namespace dp_bench::lerobot {

enum class Version { kV20, kV21, kV30 };

/// The 12-bit codes of a depth video: 0 is `min` and 4095 is `max` [m], in equal steps of metres,
/// or of log(metres + shift).
struct DepthCode {
  double min = 0.0;
  double max = 0.0;
  double shift = 0.0;
  bool is_logarithmic = true;
};

/// One entry of "features" in info.json.
struct Feature {
  enum class Kind { kNumbers, kImage, kVideo, kOther };  // kOther: texts

  std::string name;
  Kind kind = Kind::kNumbers;
  Shape shape;                          // of numbers: at least one axis
  std::vector<std::string> channels;    // a name per number; none if there are no such names
  int width = 0;                        // of pictures [px]
  int height = 0;                       // [px]
  int n_channels = 0;                   // of pictures: 3, or 1 for depth
  bool is_depth = false;                // info.json says so
  std::optional<DepthCode> depth_code;  // of a depth video
  std::optional<double> depth_unit;     // of depth images: 1 or 0.001 [m]

  bool is_camera() const { return kind == Kind::kImage || kind == Kind::kVideo; }
};

/// The numbers in the names of a file.
struct FileNumber {
  std::int64_t chunk = 0;
  std::int64_t file = 0;  // the episode in versions 2.0 and 2.1

  bool operator==(const FileNumber&) const = default;
  bool operator<(const FileNumber& other) const {
    return std::tie(chunk, file) < std::tie(other.chunk, other.file);
  }
};

/// The frames of an episode in a video file.
struct VideoPlace {
  FileNumber file;
  double from_timestamp = 0.0;  // [s] of the first frame
};

struct Episode {
  std::int64_t length = 0;  // [frames]
  std::vector<std::string> tasks;
  FileNumber data;
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
  enum class Field { kLetters, kChunk, kFile, kCamera };
  struct Part {
    Field field;
    std::string text;  // of kLetters
    int width = 0;     // padded with zeros to this many digits
  };

  std::vector<Part> parts_;
};

struct Metadata {
  std::filesystem::path root;
  Version version = Version::kV30;
  double fps = 0.0;  // [Hz]
  std::map<std::string, Feature> features;
  std::vector<std::string> tasks;                         // by task_index
  std::vector<Episode> episodes;                          // by episode_index
  std::map<std::string, std::vector<VideoPlace>> videos;  // per camera, by episode_index

  std::filesystem::path DataFile(const FileNumber& number) const;
  std::filesystem::path VideoFile(const std::string& camera, const FileNumber& number) const;

  PathTemplate data_path;
  PathTemplate video_path;
};

/// Reads info.json, the tasks and the table of episodes. `max_bytes` bounds the memory for each
/// table. Throws Error{kData} or Error{kIo} naming the file.
Metadata ReadMetadata(const std::filesystem::path& root, std::int64_t max_bytes);

/// Checks that meta/ has minimum, maximum, mean and deviation of these features: of the whole data
/// set, or in version 2.1 of every episode. LeRobot passes numbers without statistics on
/// unnormalized; here they are an Error{kData} that names file and feature. Returns what meta/ says
/// about the range of each feature over all episodes.
std::map<std::string, StatedRange> ReadRanges(const Metadata& metadata,
                                              const std::vector<std::string>& features);

}  // namespace dp_bench::lerobot
