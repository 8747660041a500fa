// The formats of datasets that are known by their files. A new format is a line of the table in
// dataset_format.cc.
#pragma once

#include <filesystem>
#include <string_view>

namespace dp_bench::config {

struct DatasetFormat {
  std::string_view name;    // of --format, and of the writer plugin (zarr's writer is no plugin)
  std::string_view reader;  // the dataset plugin that reads it
  bool (*recognizes)(const std::filesystem::path& path);
};

inline constexpr const char* kZarrFormat = "zarr";  // also what `collect` writes
inline constexpr const char* kLeRobotFormat = "lerobot";
inline constexpr const char* kHdf5Format = "hdf5";
inline constexpr const char* kReplayPlugin = "zarr_replay";

/// The format of the dataset at `path`; zarr if none recognizes it.
const DatasetFormat& FormatOf(const std::filesystem::path& path);

/// Whether the dataset plugin is the reader of a known format.
bool IsFormatReader(std::string_view plugin);

}  // namespace dp_bench::config
