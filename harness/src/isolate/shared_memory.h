// Memory that two processes share. It has no name in the file system: nothing can be left behind.
#pragma once

#include <cstddef>
#include <span>

namespace dp_bench {

class SharedMemory {
 public:
  /// New and empty. Throws Error{kIo}.
  SharedMemory();
  /// The other process's, by the descriptor that it inherited; nothing of it is mapped yet.
  explicit SharedMemory(int inherited_fd);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  int fd() const { return fd_; }
  std::size_t size() const { return size_; }

  /// Makes it at least this large and maps it; its content stays, its address changes. Throws
  /// Error{kIo}.
  void Grow(std::size_t size);

  /// Maps what the other process has made this large. Throws Error{kIo}.
  void Map(std::size_t size);

  /// A part of what is mapped; throws Error{kInternal} when it is not within.
  std::span<std::byte> Part(std::size_t offset, std::size_t size) const;

 private:
  int fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace dp_bench
