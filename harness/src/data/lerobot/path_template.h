// The names of the files of a LeRobot dataset, which contain numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

namespace dp_bench::lerobot {

/// The numbers in the names of a file.
struct FileNumber {
  std::int64_t chunk = 0;
  std::int64_t file = 0;  // the episode in versions 2.0 and 2.1

  bool operator==(const FileNumber&) const = default;
  bool operator<(const FileNumber& other) const {
    return std::tie(chunk, file) < std::tie(other.chunk, other.file);
  }
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

}  // namespace dp_bench::lerobot
