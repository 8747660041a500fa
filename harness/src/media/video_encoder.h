// Video in an MP4 file (ISO/IEC 14496-12). H.264 is for videos of rollouts, which play everywhere,
// including browsers; HEVC and AV1 are for recordings. A name that ends in .gif gives an animated
// GIF of 256 fixed colours instead, for pages that show only images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/atomic_file.h"
#include "dp_bench/env.h"

namespace dp_bench::media {

enum class VideoCodec { kH264, kHevc, kAv1 };

/// "h264", "hevc" or "av1", as libav and LeRobot say.
std::string_view Name(VideoCodec codec);

/// The inverse. Throws Error{kMedia} for other names.
VideoCodec ParseVideoCodec(std::string_view name);

/// The encoder of libav for images of this size [px]: libx264; libx265; libsvtav1, or libaom-av1
/// if that is missing or the images are too small for it. `is_present` says whether libav has
/// one. Throws Error{kMedia} naming those that it has if there is none.
std::string FindVideoEncoder(VideoCodec codec, int width, int height,
                             const std::function<bool(const std::string&)>& is_present);

/// The same, for the libav that is installed.
std::string FindVideoEncoder(VideoCodec codec, int width, int height);

struct VideoOptions {
  int width = 0;   // of the frames that are written [px]
  int height = 0;  // [px]
  double fps = 0.0;
  VideoCodec codec = VideoCodec::kH264;  // not for a GIF
  int crf = 22;                          // 0 lossless ... 51 worst; not for a GIF
  std::string preset = "veryfast";       // of the encoder: speed against file size
  std::optional<int> key_frame_every;    // [frames]; none: every second of the video
};

/// Encodes frames as they arrive and keeps none. Equal frames give equal files. 4:2:0 chroma needs
/// even sizes: an odd width or height is padded by repeating the last column or row. Used by one
/// thread.
class VideoEncoder {
 public:
  /// Starts a file in the folder of `path`; `Finish` gives it its name. The folder must exist.
  /// Throws Error{kIo} if the file cannot be created. This and the other functions throw
  /// Error{kMedia}.
  VideoEncoder(const std::filesystem::path& path, const VideoOptions& options);

  /// Removes the unfinished file if `Finish` was not reached.
  ~VideoEncoder();

  void Write(const RgbImage& frame);

  /// Completes the file and durably moves it to its name, replacing an older one. Throws Error{kIo}
  /// if that fails. At least one frame must have been written. No function may be called
  /// afterwards.
  void Finish();

 private:
  struct Stream;

  void Encode(bool is_flush);

  std::filesystem::path path_;
  std::optional<core::AtomicFile> file_;  // outlives the stream, which writes to it
  VideoOptions options_;
  std::int64_t n_frames_ = 0;
  RgbImage padded_;  // used if a size is odd
  std::unique_ptr<Stream> stream_;
};

}  // namespace dp_bench::media
