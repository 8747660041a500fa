#include "plugin/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/errors.h"
#include "dp_bench/spec.h"

namespace dp_bench::plugin {

namespace {

[[noreturn]] void Throw(const char* what, std::size_t size) {
  throw IoError("shared memory for an env's process: {} of {} bytes: {}", what, size,
                std::strerror(errno));
}

}  // namespace

SharedMemory::SharedMemory() : fd_(memfd_create("dp_bench_env", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (fd_ < 0) Throw("memfd_create", 0);
  // if the memory shrank, the other process would crash
  if (fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK) != 0) Throw("F_SEAL_SHRINK", 0);
}

SharedMemory::SharedMemory(int inherited_fd) : fd_(inherited_fd) {}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
  close(fd_);
}

void SharedMemory::Grow(std::size_t size) {
  if (size <= size_) return;
  if (ftruncate(fd_, static_cast<off_t>(size)) != 0) Throw("ftruncate", size);
  Map(size);
}

void SharedMemory::Map(std::size_t size) {
  if (size <= size_) return;
  if (data_ != nullptr) munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (mapped == MAP_FAILED) Throw("mmap", size);
  data_ = static_cast<std::byte*>(mapped);
  size_ = size;
}

std::span<std::byte> SharedMemory::Part(std::size_t offset, std::size_t size) const {
  if (offset > size_ || size > size_ - offset) {
    throw InternalError("bytes {} to {} of shared memory that has {}", offset, offset + size,
                        size_);
  }
  return {data_ + offset, size};
}

std::size_t Aligned(std::size_t size) {
  return (size + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

MemoryLayout LayOut(const EnvSpec& spec) {
  const std::size_t action = spec.shape_meta.action.ByteSize();
  const std::size_t state = spec.abilities.state_size * sizeof(double);
  MemoryLayout layout;
  layout.output = Aligned(std::max(action, state));
  for (const KeySpec& key : spec.shape_meta.obs) {
    layout.obs.push_back(layout.output);
    layout.output += Aligned(key.ByteSize());
  }
  return layout;
}

}  // namespace dp_bench::plugin
