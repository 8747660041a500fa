// Decodes a video file frame by frame to RGB8, through libav.
#pragma once

#include <filesystem>
#include <memory>

#include "dp_bench/env.h"

namespace dp_bench::media {

/// Reads one video stream from its start. Used by one thread.
class VideoReader {
 public:
  /// Throws Error{kMedia} naming the file when it is not a readable video.
  explicit VideoReader(const std::filesystem::path& path);
  ~VideoReader();

  int width() const;   // [px]
  int height() const;  // [px]
  double fps() const;

  /// Decodes the next frame into `frame`, which gets the size of the video. False at the end.
  bool Read(RgbImage* frame);

 private:
  struct Stream;

  std::filesystem::path path_;
  std::unique_ptr<Stream> stream_;
};

}  // namespace dp_bench::media
