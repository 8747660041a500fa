#include "config/dataset_format.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace dp_bench::config {
namespace {

namespace fs = std::filesystem;

bool IsLeRobot(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "meta/info.json", error);
}

bool HasHdf5Name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".hdf5" || extension == ".h5" || extension == ".hdf";
}

// A file may have any name. Its signature is at byte 0, 512, 1024, 2048, ...
bool IsHdf5File(const fs::path& path) {
  constexpr std::string_view kSignature("\x89HDF\r\n\x1a\n");
  std::error_code error;
  if (fs::is_directory(path, error)) return false;
  if (HasHdf5Name(path)) return true;
  if (!fs::is_regular_file(path, error)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string found(kSignature.size(), '\0');
  for (std::streamoff at = 0; file.seekg(at) && file.read(found.data(), std::ssize(found));
       at = at == 0 ? 512 : 2 * at) {
    if (found == kSignature) return true;
  }
  return false;
}

// A file, or a folder with a file per episode.
bool IsHdf5(const fs::path& path) {
  if (IsHdf5File(path)) return true;
  std::error_code error;  // a folder that cannot be listed has none
  const fs::directory_iterator entries(path, error);
  return std::ranges::any_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    return HasHdf5Name(entry.path()) && IsHdf5File(entry.path());
  });
}

// The first that recognizes a path reads it.
constexpr auto kDatasetFormats = std::to_array<DatasetFormat>({
    {kLeRobotFormat, "lerobot", &IsLeRobot},
    {kHdf5Format, kHdf5Format, &IsHdf5},
    {kZarrFormat, kReplayPlugin, [](const fs::path&) { return true; }},
});

}  // namespace

const DatasetFormat& FormatOf(const fs::path& path) {
  return *std::ranges::find_if(
      kDatasetFormats, [&path](const DatasetFormat& format) { return format.recognizes(path); });
}

bool IsFormatReader(std::string_view plugin) {
  return std::ranges::any_of(
      kDatasetFormats, [plugin](const DatasetFormat& format) { return plugin == format.reader; });
}

}  // namespace dp_bench::config
