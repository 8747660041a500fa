// See episode_overlap.h.
#include "data/lerobot/episode_overlap.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

void RequireRowsInOrder(const std::string& where, const std::vector<Episode>& episodes) {
  std::int64_t n_rows = 0;
  for (std::size_t i = 0; i < episodes.size(); ++i) {
    const std::int64_t first = episodes[i].first_row.value_or(n_rows);
    if (first != n_rows) {
      throw Error(
          ErrorCode::kData,
          fmt::format("{}: episode {}, frame 0: is in row {} (dataset_from_index), but the "
                      "episodes before it {}",
                      where, i, first,
                      first < n_rows ? fmt::format("reach to row {}, so they overlap", n_rows - 1)
                                     : fmt::format("end at row {}", n_rows - 1)));
    }
    n_rows += episodes[i].length;
  }
}

// The beginning of an episode in a video, and its index.
using Begin = std::pair<double, std::size_t>;

void RequireSeparateVideos(const std::string& where, const Metadata& metadata,
                           const std::string& camera, const std::vector<VideoPlace>& places) {
  std::map<FileNumber, std::vector<Begin>> by_file;
  for (std::size_t i = 0; i < places.size(); ++i) {
    by_file[places[i].file].emplace_back(places[i].from_timestamp, i);
  }
  for (auto& [file, begins] : by_file) {
    std::ranges::sort(begins);
    for (std::size_t i = 1; i < begins.size(); ++i) {
      const auto& [begin, earlier] = begins[i - 1];
      const auto& [next, later] = begins[i];
      const auto length = static_cast<double>(metadata.episodes[earlier].length);
      if (next >= begin + (length - 0.5) / metadata.fps) continue;  // half a frame for rounding
      throw Error(ErrorCode::kData,
                  fmt::format("{}: episode {}, frame 0 of '{}': begins at {:.6f} s of {}, where "
                              "episode {} has its frame {}: the episodes overlap",
                              where, later, camera, next, metadata.VideoFile(camera, file).string(),
                              earlier, std::llround((next - begin) * metadata.fps)));
    }
  }
}

}  // namespace

void RequireSeparateEpisodes(const std::string& where, const Metadata& metadata) {
  RequireRowsInOrder(where, metadata.episodes);
  for (const auto& [camera, places] : metadata.videos) {
    RequireSeparateVideos(where, metadata, camera, places);
  }
}

}  // namespace dp_bench::lerobot
