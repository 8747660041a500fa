// Memory whose pages the kernel allocates at the first write, as large pages if it can. A decoder
// that fails early has used no memory, and page faults do not slow decoding down.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

namespace dp_bench::zarr {

class PageBuffer {
 public:
  PageBuffer() = default;

  /// Throws std::bad_alloc.
  explicit PageBuffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    // small buffers are not worth a large page
    const std::size_t alignment = size < kLargePage ? kCacheLine : kLargePage;
    const std::size_t padded = (size + alignment - 1) / alignment * alignment;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, padded)));
    if (data_ == nullptr) throw std::bad_alloc();
    // only a hint: without large pages everything works, but slower
    if (alignment == kLargePage) ::madvise(data_.get(), padded, MADV_HUGEPAGE);
  }

  std::span<std::byte> bytes() { return {data_.get(), size_}; }
  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }

 private:
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kLargePage = std::size_t{2} << 20;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace dp_bench::zarr
