#include "data/reader/chunk_cache.h"

#include <algorithm>
#include <iterator>

#include "dp_bench/error.h"

namespace dp_bench::reader {

// Ends a claim, whether decoding succeeded or not.
class ChunkCache::Claim {
 public:
  Claim(ChunkCache* cache, const Key& key) : cache_(cache), key_(key) {}
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  ~Claim() {
    const std::lock_guard lock(cache_->mutex_);
    cache_->claims_.erase(key_);
    cache_->changed_.notify_all();
  }

 private:
  ChunkCache* cache_;
  Key key_;
};

std::shared_ptr<const ChunkCache::Chunk> ChunkCache::Get(const Key& key, std::size_t size,
                                                         const Decode& decode) {
  if (std::shared_ptr<const Chunk> found = FindOrClaim(key)) return found;
  const Claim claim(this, key);
  const auto chunk = std::make_shared<Chunk>(this, TakeRoom(size), size);
  decode(chunk->room_.first(size));
  Keep(key, chunk);
  return chunk;
}

void ChunkCache::Offer(const Key& key, std::size_t size, const Decode& decode) {
  const std::optional<std::span<std::byte>> room = ClaimWithFreeRoom(key, size);
  if (!room) return;
  const Claim claim(this, key);
  const auto chunk = std::make_shared<Chunk>(this, *room, size);
  decode(chunk->room_.first(size));
  Keep(key, chunk);
}

std::size_t ChunkCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return memory_.taken();
}

// Null if the caller must decode the chunk.
std::shared_ptr<const ChunkCache::Chunk> ChunkCache::FindOrClaim(const Key& key) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !claims_.contains(key); });
  const auto place = places_.find(key);
  if (place == places_.end()) {
    claims_.insert(key);
    return nullptr;
  }
  chunks_.splice(chunks_.end(), chunks_, place->second);
  return place->second->second;
}

std::optional<std::span<std::byte>> ChunkCache::ClaimWithFreeRoom(const Key& key,
                                                                  std::size_t size) {
  const std::lock_guard lock(mutex_);
  if (claims_.contains(key) || places_.contains(key)) return std::nullopt;
  const std::optional<std::span<std::byte>> room = memory_.TryTake(size);
  if (room) claims_.insert(key);
  return room;
}

void ChunkCache::Keep(const Key& key, std::shared_ptr<const Chunk> chunk) {
  const std::lock_guard lock(mutex_);
  places_[key] = chunks_.emplace(chunks_.end(), key, std::move(chunk));
}

// Drops chunks one by one until there is room. A chunk in use gives its memory back when its last
// user releases it.
std::span<std::byte> ChunkCache::TakeRoom(std::size_t size) {
  DPB_ASSERT(size <= limit());
  while (true) {
    std::shared_ptr<const Chunk> oldest;  // destroyed after the lock, which it takes again
    std::unique_lock lock(mutex_);
    std::optional<std::span<std::byte>> room;
    changed_.wait(lock, [&] {
      room = memory_.TryTake(size);
      return room.has_value() || !chunks_.empty();
    });
    if (room) return *room;
    oldest = std::move(chunks_.front().second);
    places_.erase(chunks_.front().first);
    chunks_.pop_front();
  }
}

void ChunkCache::GiveRoom(std::span<std::byte> room) {
  const std::lock_guard lock(mutex_);
  memory_.Give(room);
  changed_.notify_all();
}

namespace {

constexpr std::size_t kCacheLine = 64;

std::size_t RoundUp(std::size_t size) { return (size + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

ChunkMemory::ChunkMemory(std::size_t size) : memory_(RoundUp(size)), gaps_{{0, RoundUp(size)}} {}

std::optional<std::span<std::byte>> ChunkMemory::TryTake(std::size_t size) {
  size = RoundUp(size);
  const auto gap =
      std::ranges::find_if(gaps_, [size](const auto& entry) { return entry.second >= size; });
  if (gap == gaps_.end()) return std::nullopt;
  const auto [offset, gap_size] = *gap;
  gaps_.erase(gap);
  if (gap_size > size) gaps_.emplace(offset + size, gap_size - size);
  taken_ += size;
  return memory_.bytes().subspan(offset, size);
}

void ChunkMemory::Give(std::span<std::byte> piece) {
  taken_ -= piece.size();
  const auto offset = static_cast<std::size_t>(piece.data() - memory_.bytes().data());
  auto gap = gaps_.emplace(offset, piece.size()).first;

  // adjacent gaps become one
  if (gap != gaps_.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == offset) {
      before->second += gap->second;
      gaps_.erase(gap);
      gap = before;
    }
  }
  const auto after = std::next(gap);
  if (after != gaps_.end() && gap->first + gap->second == after->first) {
    gap->second += after->second;
    gaps_.erase(after);
  }
}

}  // namespace dp_bench::reader
