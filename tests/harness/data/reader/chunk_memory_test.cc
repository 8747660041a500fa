// The memory that chunks share: pieces never overlap, and returned memory can be used again.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "data/reader/chunk_cache.h"
#include "dp_bench/random.h"

namespace dp_bench::reader {
namespace {

TEST(ChunkMemory, HoldsOnePieceOfItsSizeThoughItIsNoMultipleOfACacheLine) {
  for (const std::size_t size : {1, 63, 64, 65, 1000}) {
    ChunkMemory memory(size);
    const auto piece = memory.TryTake(size);
    ASSERT_TRUE(piece);
    EXPECT_GE(piece->size(), size);
    EXPECT_LT(piece->size(), size + 64);
    EXPECT_EQ(memory.taken(), memory.size());
    EXPECT_FALSE(memory.TryTake(1));
  }
}

TEST(ChunkMemory, GapsThatTouchBecomeOne) {
  ChunkMemory memory(3 * 64);
  std::vector<std::vector<int>> orders = {{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}};
  for (const std::vector<int>& order : orders) {
    std::vector<std::span<std::byte>> pieces;
    for (int i = 0; i < 3; ++i) pieces.push_back(*memory.TryTake(64));
    for (const int i : order) memory.Give(pieces[static_cast<std::size_t>(i)]);
    const auto whole = memory.TryTake(3 * 64);
    ASSERT_TRUE(whole);
    memory.Give(*whole);
    EXPECT_EQ(memory.taken(), 0U);
  }
}

TEST(ChunkMemory, PiecesNeverOverlap) {
  ChunkMemory memory(100 * 64);
  RandomStream random(1, StreamId::kAugment);
  std::vector<std::pair<std::span<std::byte>, std::byte>> pieces;
  for (int i = 0; i < 5000; ++i) {
    const auto piece = memory.TryTake(1 + random.UniformInt(1000));
    if (piece && random.UniformInt(3) > 0) {
      const auto mark = static_cast<std::byte>(i);
      std::ranges::fill(*piece, mark);
      pieces.emplace_back(*piece, mark);
      continue;
    }
    if (piece) memory.Give(*piece);
    if (pieces.empty()) continue;
    std::swap(pieces[random.UniformInt(static_cast<std::uint32_t>(pieces.size()))], pieces.back());
    const auto [oldest, mark] = pieces.back();
    EXPECT_EQ(std::ranges::count(oldest, mark), static_cast<std::ptrdiff_t>(oldest.size()));
    memory.Give(oldest);
    pieces.pop_back();
  }
  std::size_t taken = 0;
  for (const auto& [piece, mark] : pieces) taken += piece.size();
  EXPECT_EQ(memory.taken(), taken);
}

}  // namespace
}  // namespace dp_bench::reader
