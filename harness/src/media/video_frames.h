// Frames of video files: those of MP4 files (ISO/IEC 14496-12) by their time, and those of any
// video one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "dp_bench/env.h"
#include "media/decoded_image.h"

namespace dp_bench::media {

/// Random access to a video of H.264, HEVC or AV1, whatever libav was built with. Reading forwards
/// decodes each frame once; a jump begins at the key frame before the wanted frame. Used by one
/// thread at a time.
class VideoFrames {
 public:
  /// Reads the index of the file. Throws Error{kMedia} naming the file if it is not an MP4 file
  /// with one video stream of this size [px].
  VideoFrames(const std::filesystem::path& path, int width, int height);
  ~VideoFrames();

  /// Gets a frame that had to be decoded on the way to another, and its time [s]. It is the nearest
  /// frame to all times that are less than `reach` [s] away.
  using Pass = std::function<void(double time, double reach, DecodedImage& image)>;

  /// The frame whose time is nearest to `time`, the earlier one of two, whatever was read before.
  /// Throws Error{kMedia} naming the file if it is more than `tolerance` [s] away, or if the data
  /// is damaged. The image is valid until the next call.
  DecodedImage& At(double time, double tolerance, const Pass& pass = nullptr);

  /// How many frames were decoded so far.
  std::int64_t n_decoded() const { return n_decoded_; }

  /// An estimate of the memory that an open decoder of such frames needs [bytes].
  static std::size_t EstimateMemory(int width, int height);

 private:
  struct Stream;

  struct Shown;

  bool IsNearest(const Shown& frame, double time) const;
  bool IsAheadOf(double time) const;
  void SeekBefore(double time);
  Shown& Nearest(double time, const Pass& pass);
  bool Decode(Shown* frame);
  bool Receive(DecodedImage& image);

  std::filesystem::path path_;
  int width_;
  int height_;
  std::int64_t n_decoded_ = 0;
  std::unique_ptr<Stream> stream_;
};

/// Reads a video from its start. Used by one thread.
class VideoReader {
 public:
  /// Throws Error{kMedia} naming the file when it is not a readable video.
  explicit VideoReader(const std::filesystem::path& path);
  ~VideoReader();

  int width() const;   // [px]
  int height() const;  // [px]
  double fps() const;

  /// Decodes the next frame into `image`, which gets the size of the frame. False at the end.
  bool Read(RgbImage* image);

 private:
  struct Stream;

  std::unique_ptr<Stream> stream_;
};

}  // namespace dp_bench::media
