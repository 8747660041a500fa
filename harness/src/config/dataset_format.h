// The readers of datasets, as far as a config needs to know them. Each one recognizes its own
// format (PluginTraits<Dataset> in dp_bench/plugin.h).
#pragma once

#include <filesystem>
#include <string>

namespace dp_bench::config {

// of --format, and of the writer plugins (zarr's writer is no plugin)
inline constexpr const char* kZarrFormat = "zarr";  // also what `collect` writes
inline constexpr const char* kLeRobotFormat = "lerobot";
inline constexpr const char* kHdf5Format = "hdf5";

/// Reads what no other reader recognizes.
inline constexpr const char* kReplayPlugin = "zarr_replay";

/// The name of the format that a dataset plugin reads.
inline std::string FormatOfReader(const std::string& plugin) {
  return plugin == kReplayPlugin ? kZarrFormat : plugin;
}

class DatasetReaders {
 public:
  /// The plugin that reads the dataset at `path`. Throws Error{kUsage} if several recognize it.
  virtual std::string ReaderOf(const std::filesystem::path& path) = 0;

  /// Whether the plugin is one that `ReaderOf` may find.
  virtual bool IsFormatReader(const std::string& plugin) = 0;

 protected:
  ~DatasetReaders() = default;
};

}  // namespace dp_bench::config
