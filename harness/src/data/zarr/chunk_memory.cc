#include "data/zarr/chunk_memory.h"

#include <algorithm>
#include <iterator>

namespace dp_bench::zarr {
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

}  // namespace dp_bench::zarr
