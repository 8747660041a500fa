// Images and videos, for expectations.
#pragma once

#include <filesystem>
#include <vector>

#include "dp_bench/env.h"
#include "media/video_frames.h"

namespace dp_bench {

/// The frames of a video; one for an image file.
inline std::vector<RgbImage> FramesOf(const std::filesystem::path& video) {
  media::VideoReader reader(video);
  std::vector<RgbImage> frames;
  RgbImage frame(1, 1);
  while (reader.Read(&frame)) frames.push_back(frame);
  return frames;
}

inline int RedAt(const RgbImage& image, int x, int y) {
  return image.pixels[static_cast<std::size_t>(3 * (y * image.width + x))];
}

}  // namespace dp_bench
