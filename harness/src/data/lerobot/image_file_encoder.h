// Encodes the images of a camera while the next ones are made, on other threads.
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/meta_files.h"

namespace dp_bench::core {
class ThreadPool;
}
namespace dp_bench::media {
class VideoEncoder;
struct VideoOptions;
}  // namespace dp_bench::media

namespace dp_bench::lerobot {

/// As PNG files, several at once. Used by one thread. `pool` must outlive it.
class ImageFileEncoder {
 public:
  ImageFileEncoder(const WrittenFeature& camera, core::ThreadPool& pool);

  /// Takes a copy of an image in storage order. Waits if many images are still in memory.
  void Add(std::span<const std::byte> pixels);

  /// The files of all images since the last call. Throws Error{kMedia} if one cannot be encoded.
  std::vector<std::string> Take();

 private:
  const WrittenFeature& camera_;
  core::ThreadPool& pool_;
  std::vector<std::future<std::string>> files_;
};

/// As a video, in the order in which they arrive. Several cameras are encoded at once. Used by one
/// thread.
class ImageVideo {
 public:
  /// Throws Error{kMedia} if there is no encoder for the codec and the size.
  ImageVideo(const std::filesystem::path& file, const media::VideoOptions& options);
  ~ImageVideo();

  /// Takes a copy of an RGB image [height, width, 3]. Waits if many are still in memory. Throws
  /// Error{kMedia} if an earlier one could not be encoded.
  void Add(std::span<const std::byte> pixels);

  /// Makes the file durable and gives it its name; without this, there is none. No function may be
  /// called afterwards.
  void Finish();

 private:
  int width_;
  int height_;
  std::unique_ptr<media::VideoEncoder> encoder_;
  std::deque<std::future<void>> waiting_;
  std::unique_ptr<core::ThreadPool> thread_;  // last: its jobs use the encoder
};

}  // namespace dp_bench::lerobot
