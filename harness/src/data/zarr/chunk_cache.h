// Decoded chunks of arrays, or pictures, that do not fit in memory, for all threads that read them.
// Together, the chunks that are kept, in use or being decoded never exceed the limit. The least
// recently used one is dropped first.
#pragma once

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "data/zarr/chunk_memory.h"

namespace dp_bench::zarr {

/// May be used from several threads at once; no lock is held while a chunk is decoded.
class ChunkCache {
 public:
  struct Key {
    const void* source;  // the array or camera: an identity only
    std::int64_t chunk;

    bool operator<(const Key& other) const {
      return std::tie(source, chunk) < std::tie(other.source, other.chunk);
    }
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

}  // namespace dp_bench::zarr
