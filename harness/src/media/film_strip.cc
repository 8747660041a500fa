#include "media/film_strip.h"

#include <fmt/format.h>

#include <algorithm>

#include "dp_bench/error.h"
#include "media/video_reader.h"

namespace dp_bench {
namespace {

int CountFrames(const std::filesystem::path& video) {
  VideoReader reader(video);
  RgbImage frame(reader.width(), reader.height());
  int n = 0;
  while (reader.Read(&frame)) ++n;
  return n;
}

/// Copies `frame` into the strip as its picture number `place`.
void Paste(const RgbImage& frame, int place, RgbImage* strip) {
  const auto row_bytes = static_cast<std::ptrdiff_t>(frame.width) * 3;
  for (int y = 0; y < frame.height; ++y) {
    const auto from = frame.pixels.begin() + y * row_bytes;
    const auto to = strip->pixels.begin() + static_cast<std::ptrdiff_t>(y) * strip->width * 3 +
                    place * row_bytes;
    std::copy(from, from + row_bytes, to);
  }
}

}  // namespace

RgbImage FilmStrip(const std::filesystem::path& video, int n_frames) {
  DPB_ASSERT(n_frames >= 2);
  const int n_in_video = CountFrames(video);
  if (n_in_video == 0) {
    throw Error(ErrorCode::kMedia, fmt::format("'{}' holds no frame", video.string()));
  }
  n_frames = std::min(n_frames, n_in_video);

  VideoReader reader(video);
  RgbImage frame(reader.width(), reader.height());
  RgbImage strip(reader.width() * n_frames, reader.height());
  int place = 0;
  for (int i = 0; i < n_in_video && reader.Read(&frame); ++i) {
    if (i != place * (n_in_video - 1) / std::max(n_frames - 1, 1)) continue;
    Paste(frame, place++, &strip);
  }
  return strip;
}

}  // namespace dp_bench
