// Memory of a fixed size that decoded chunks share, in pages that are allocated once. A heap would
// keep freed memory for each thread, and new pages cost as much time as decoding.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>

#include "data/zarr/page_buffer.h"

namespace dp_bench::zarr {

/// For one thread at a time.
class ChunkMemory {
 public:
  /// `size` is rounded up to whole cache lines, as are all pieces. Throws std::bad_alloc.
  explicit ChunkMemory(std::size_t size);

  std::size_t size() const { return memory_.bytes().size(); }
  std::size_t taken() const { return taken_; }

  /// A piece of `size` bytes or a little more; nothing if no gap is large enough.
  std::optional<std::span<std::byte>> TryTake(std::size_t size);

  /// Takes back a piece.
  void Give(std::span<std::byte> piece);

 private:
  PageBuffer memory_;
  std::map<std::size_t, std::size_t> gaps_;  // offset to size; no two touch each other
  std::size_t taken_ = 0;
};

}  // namespace dp_bench::zarr
