// Memory of a fixed size that decoded chunks share, in pages that are taken from the system once.
// A heap would keep what it gives back, once per thread, and new pages cost as much as decoding.
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

  /// A piece of `size` bytes or a little more; nothing when no gap is large enough.
  std::optional<std::span<std::byte>> TryTake(std::size_t size);

  /// Takes back a piece.
  void Give(std::span<std::byte> piece);

 private:
  PageBuffer memory_;
  std::map<std::size_t, std::size_t> gaps_;  // offset to size; no two touch each other
  std::size_t taken_ = 0;
};

}  // namespace dp_bench::zarr
