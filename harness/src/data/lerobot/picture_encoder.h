// Encodes the images of a camera as PNG files, on several threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/meta_files.h"
#include "dp_bench/env.h"

namespace dp_bench::core {
class ThreadPool;
}
namespace dp_bench::core {
class ThreadPool;
}
namespace dp_bench::media {
class VideoEncoder;
struct VideoOptions;
}  // namespace dp_bench::media

namespace dp_bench::lerobot {

/// Used by one thread. `pool` must outlive it.
class PictureEncoder {
 public:
  PictureEncoder(const WrittenFeature& camera, core::ThreadPool& pool);

  /// Takes a copy of an image in storage order. Waits if many images are still in memory.
  void Add(std::span<const std::byte> picture);

  /// The files of all images since the last call. Throws Error{kMedia} if one cannot be encoded.
  std::vector<std::string> Take();

 private:
  const WrittenFeature& camera_;
  core::ThreadPool& pool_;
  std::vector<std::future<std::string>> files_;
};

// Encodes the images of a camera as a video, in the order in which they arrive, on a thread of
// the pool. Several cameras are encoded at once.

/// Used by one thread. `pool` must outlive it.
class PictureVideo {
 public:
  /// Throws Error{kMedia} if there is no encoder for the codec and the size.
  PictureVideo(const std::filesystem::path& file, const media::VideoOptions& options,
               core::ThreadPool& pool);
  /// Leaves no file if Finish was not called.
  ~PictureVideo();

  /// Takes a copy of an RGB image [height, width, 3]. Waits if many are still in memory. Throws
  /// Error{kMedia} if an earlier one could not be encoded.
  void Add(std::span<const std::byte> picture);

  /// Makes the file durable and gives it its name. No function may be called afterwards.
  void Finish();

 private:
  void EncodeWaiting();

  int width_;
  int height_;
  core::ThreadPool& pool_;
  std::unique_ptr<media::VideoEncoder> encoder_;  // of the job
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<RgbImage> waiting_;
  bool is_encoding_ = false;  // a job is in the pool
  std::exception_ptr fault_;
};

}  // namespace dp_bench::lerobot
