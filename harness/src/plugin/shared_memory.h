// Memory that two processes share. It has no name in the file system, so nothing can be left
// behind.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dp_bench/env.h"

namespace dp_bench::plugin {

class SharedMemory {
 public:
  /// New and empty. Throws Error{kIo}.
  SharedMemory();
  /// The memory of the other process, from an inherited descriptor. Nothing is mapped yet.
  explicit SharedMemory(int inherited_fd);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  int fd() const { return fd_; }
  std::size_t size() const { return size_; }

  /// Makes it at least this large and maps it. The content stays, the address changes. Throws
  /// Error{kIo}.
  void Grow(std::size_t size);

  /// Maps memory that the other process has made this large. Throws Error{kIo}.
  void Map(std::size_t size);

  /// A part of the mapped memory. Throws Error{kInternal} if it is not within.
  std::span<std::byte> Part(std::size_t offset, std::size_t size) const;

 private:
  int fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// The layout of the memory that host and env process share. Both sides compute it from the spec, so
// the host trusts nothing that a broken plugin may have written there.

inline constexpr std::size_t kMaxText = 64 << 10;    // [bytes] of an error's message
inline constexpr std::size_t kMinOutput = 1 << 20;   // [bytes] for an EnvOffer, texts and numbers
inline constexpr std::size_t kMemoryAlignment = 64;  // [bytes] of every part

struct MemoryLayout {
  // input begins at 0: an action [Da] float32, a state float64, or what creates the env
  std::vector<std::size_t> obs;  // one per key of shape_meta.obs
  std::size_t output = 0;        // the result of a call; grows with requested images
};

MemoryLayout LayOut(const EnvSpec& spec);

/// The next multiple of kMemoryAlignment.
std::size_t Aligned(std::size_t size);

}  // namespace dp_bench::plugin
