#include "config/dataset_format.h"

#include <algorithm>
#include <array>
#include <system_error>

namespace dp_bench::config {
namespace {

namespace fs = std::filesystem;

bool IsLeRobot(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path / "meta/info.json", error);
}

// The first that recognizes a path reads it.
constexpr auto kDatasetFormats = std::to_array<DatasetFormat>({
    {kLeRobotFormat, "lerobot", &IsLeRobot},
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
