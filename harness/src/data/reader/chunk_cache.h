// The memory of readers: for numbers that are loaded as a whole, and for decoded chunks of arrays,
// or images, that do not fit in memory, shared by all threads that read them.
#pragma once

#include <sys/mman.h>

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <utility>

namespace dp_bench::reader {

/// Memory whose pages the kernel allocates at the first write, as large pages if it can. A decoder
/// that fails early has used no memory, and page faults do not slow decoding down.
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

/// Memory of a fixed size that decoded chunks share, in pages that are allocated once. A heap would
/// keep freed memory for each thread, and new pages cost as much time as decoding. For one thread
/// at a time.
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

/// Together, the chunks that are kept, in use or being decoded never exceed the limit. The least
/// recently used one is dropped first. May be used from several threads at once; no lock is held
/// while a chunk is decoded.
class ChunkCache {
 public:
  struct Key {
    const void* source;  // the array or camera: an identity only
    std::int64_t chunk;

    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): not ours
  };

  /// A decoded chunk. Its memory counts until the last owner releases it.
  class Chunk {
   public:
    Chunk(ChunkCache* cache, std::span<std::byte> room, std::size_t size)
        : cache_(cache), room_(room), size_(size) {}
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;
    ~Chunk() { cache_->GiveRoom(room_); }
    std::span<const std::byte> bytes() const { return room_.first(size_); }

   private:
    friend class ChunkCache;
    ChunkCache* cache_;
    std::span<std::byte> room_;
    std::size_t size_;
  };

  using Decode = std::function<void(std::span<std::byte>)>;

  /// Limit and chunks are rounded up to whole cache lines. Throws std::bad_alloc.
  explicit ChunkCache(std::size_t limit) : memory_(limit) {}
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;

  /// The chunk `key` of `size` bytes, at most limit(). If it is not in the cache, `decode` fills
  /// it. If another thread is decoding it already, waits for that thread; if the whole limit is in
  /// use, waits for room. So a thread must release a chunk before it requests the next one. Throws
  /// what `decode` throws; the chunk can then be requested again. The cache must outlive the chunk.
  std::shared_ptr<const Chunk> Get(const Key& key, std::size_t size, const Decode& decode);

  /// Adds the chunk `key`, filled by `decode`, if there is free room for it, it is not in the cache
  /// and no thread is decoding it. Never waits for room. Throws what `decode` throws.
  void Offer(const Key& key, std::size_t size, const Decode& decode);

  std::size_t limit() const { return memory_.size(); }

  /// Memory of all chunks: those kept, in use, and being decoded.
  std::size_t bytes() const;

 private:
  class Claim;
  using Entry = std::pair<Key, std::shared_ptr<const Chunk>>;

  std::shared_ptr<const Chunk> FindOrClaim(const Key& key);
  std::optional<std::span<std::byte>> ClaimWithFreeRoom(const Key& key, std::size_t size);
  void Keep(const Key& key, std::shared_ptr<const Chunk> chunk);
  std::span<std::byte> TakeRoom(std::size_t size);
  void GiveRoom(std::span<std::byte> room);

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a claim ended, or room was given back
  ChunkMemory memory_;
  std::set<Key> claims_;     // chunks that a thread is decoding
  std::list<Entry> chunks_;  // the least recently used one first
  std::map<Key, std::list<Entry>::iterator> places_;
};

}  // namespace dp_bench::reader
