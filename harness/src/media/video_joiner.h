// Copies compressed video between MP4 files (ISO/IEC 14496-12), without decoding it: parts of files
// are put together in a new one, as LeRobot does with the episodes of a camera.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace dp_bench::media {

inline constexpr double kMaxFrameOffset = 0.25;  // [frames] of a frame from its time

/// Consecutive frames of a video.
struct VideoPart {
  std::filesystem::path file;
  double from_time = 0.0;     // [s] of the first frame
  std::int64_t n_frames = 0;  // at least 1
};

/// One new file. Its frames follow one another at a constant rate. Used by one thread. Faults throw
/// Error{kMedia} naming the file.
class VideoJoiner {
 public:
  /// Creates the file. Frames of parts must be at their times, from_time + i / `fps`, to within a
  /// quarter of a frame.
  VideoJoiner(std::filesystem::path path, double fps);
  /// Leaves a damaged file if Finish was not called.
  ~VideoJoiner();

  /// Appends the compressed frames of a part as they are. Returns false, and changes nothing, if
  /// the file cannot take them because they were encoded with other settings than those before.
  /// Throws if the part cannot stand alone: its first frame is no key frame, or frames of it are
  /// stored between others.
  bool TryAppend(const VideoPart& part);

  std::int64_t n_frames() const { return n_frames_; }
  std::int64_t n_bytes() const;  // so far

  /// Completes the file. It is not made durable. No function may be called afterwards.
  void Finish();

 private:
  struct Output;

  std::filesystem::path path_;
  double fps_;
  std::int64_t n_frames_ = 0;
  std::unique_ptr<Output> output_;
};

/// The codec of the video in an MP4 file, as libav names it: "h264", "hevc", "av1", ...
std::string VideoCodecOf(const std::filesystem::path& path);

}  // namespace dp_bench::media
