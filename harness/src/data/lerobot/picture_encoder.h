// Encodes the pictures of a camera as PNG files, on several threads.
#pragma once

#include <cstddef>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "data/lerobot/meta_files.h"

namespace dp_bench::core {
class ThreadPool;
}

namespace dp_bench::lerobot {

/// Used by one thread. `pool` must outlive it.
class PictureEncoder {
 public:
  PictureEncoder(const WrittenFeature& camera, core::ThreadPool& pool);

  /// Takes a copy of a picture in storage order. Waits if many pictures are still in memory.
  void Add(std::span<const std::byte> picture);

  /// The files of all pictures since the last call. Throws Error{kMedia} if one cannot be encoded.
  std::vector<std::string> Take();

 private:
  const WrittenFeature& camera_;
  core::ThreadPool& pool_;
  std::vector<std::future<std::string>> files_;
};

}  // namespace dp_bench::lerobot
