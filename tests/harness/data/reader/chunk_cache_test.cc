// The cache of decoded chunks: each decoded once, never more memory than the limit, whatever the
// threads do.
#include "data/reader/chunk_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "dp_bench/error.h"
#include "dp_bench/random.h"
#include "support/error_of.h"

namespace dp_bench::reader {
namespace {

constexpr std::size_t kLine = 64;  // sizes are multiples of it

ChunkCache::Key KeyOf(std::int64_t chunk) { return {nullptr, chunk}; }

// Fills a chunk with its number.
auto Fill(std::int64_t chunk) {
  return [chunk](std::span<std::byte> bytes) {
    std::ranges::fill(bytes, static_cast<std::byte>(chunk));
  };
}

void ExpectFilled(const ChunkCache::Chunk& chunk, std::int64_t number, std::size_t size) {
  ASSERT_EQ(chunk.bytes().size(), size);
  EXPECT_TRUE(std::ranges::all_of(
      chunk.bytes(), [number](std::byte value) { return value == static_cast<std::byte>(number); }))
      << "chunk " << number;
}

// Whether the cache has the chunk; if not, decodes it.
bool IsHere(ChunkCache* cache, std::int64_t chunk, std::size_t size) {
  bool is_here = true;
  cache->Get(KeyOf(chunk), size, [&is_here](std::span<std::byte>) { is_here = false; });
  return is_here;
}

void RunThreads(int n, const std::function<void(int)>& work) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back(work, i);
}

TEST(ChunkCache, DropsTheLeastRecentlyUsedChunk) {
  ChunkCache cache(3 * kLine);
  for (const std::int64_t chunk : {0, 1, 2}) EXPECT_FALSE(IsHere(&cache, chunk, kLine));
  EXPECT_TRUE(IsHere(&cache, 0, kLine));
  EXPECT_FALSE(IsHere(&cache, 3, kLine)) << "takes the place of 1";
  EXPECT_TRUE(IsHere(&cache, 0, kLine));
  EXPECT_TRUE(IsHere(&cache, 2, kLine));
  EXPECT_FALSE(IsHere(&cache, 1, kLine));
  EXPECT_EQ(cache.bytes(), 3 * kLine);
}

TEST(ChunkCache, AnOfferedChunkTakesFreeRoomOnly) {
  ChunkCache cache(2 * kLine);
  cache.Offer(KeyOf(0), kLine, Fill(1));
  ExpectFilled(*cache.Get(KeyOf(0), kLine, Fill(9)), 1, kLine);
  cache.Offer(KeyOf(0), kLine, Fill(9));
  ExpectFilled(*cache.Get(KeyOf(0), kLine, Fill(9)), 1, kLine);
  EXPECT_FALSE(IsHere(&cache, 1, kLine));
  cache.Offer(KeyOf(2), kLine, Fill(9));
  EXPECT_TRUE(IsHere(&cache, 0, kLine)) << "nothing is dropped for an offer";
  EXPECT_TRUE(IsHere(&cache, 1, kLine));
  EXPECT_FALSE(IsHere(&cache, 2, kLine));
}

TEST(ChunkCache, AnOfferThatFailsLeavesNothing) {
  ChunkCache cache(kLine);
  const auto fail = [](std::span<std::byte>) { throw Error(ErrorCode::kData, "damaged"); };
  EXPECT_THROW(cache.Offer(KeyOf(0), kLine, fail), Error);
  EXPECT_EQ(cache.bytes(), 0U);
  EXPECT_FALSE(IsHere(&cache, 0, kLine));
}

TEST(ChunkCache, ChunksOfSeveralArraysAndSizesShareTheLimit) {
  ChunkCache cache(3 * kLine);
  const void* const other = static_cast<const void*>(&cache);
  for (const std::int64_t chunk : {0, 1, 2}) IsHere(&cache, chunk, kLine);
  ExpectFilled(*cache.Get({other, 0}, 100, Fill(7)), 7, 100);
  EXPECT_EQ(cache.bytes(), 3 * kLine) << "in place of 0 and 1";
  EXPECT_TRUE(IsHere(&cache, 2, kLine));
  ExpectFilled(*cache.Get(KeyOf(0), 5, Fill(8)), 8, 5);
  EXPECT_EQ(cache.bytes(), 2 * kLine) << "in place of the large one";
}

TEST(ChunkCache, AChunkInUseStaysAndCountsAfterItLostItsPlace) {
  ChunkCache cache(2 * kLine);
  std::shared_ptr<const ChunkCache::Chunk> used = cache.Get(KeyOf(0), kLine, Fill(9));
  for (const std::int64_t chunk : {1, 2, 3}) {
    cache.Get(KeyOf(chunk), kLine, Fill(chunk));
    EXPECT_EQ(cache.bytes(), 2 * kLine);
  }
  ExpectFilled(*used, 9, kLine);
  used.reset();
  EXPECT_EQ(cache.bytes(), kLine);
}

TEST(ChunkCache, WaitsForRoomWhileAllOfTheLimitIsInUse) {
  for (int repetition = 0; repetition < 100; ++repetition) {
    ChunkCache cache(1 * kLine);
    std::atomic<bool> was_released = false;
    std::shared_ptr<const ChunkCache::Chunk> used = cache.Get(KeyOf(0), kLine, Fill(0));
    const std::jthread other([&] {
      cache.Get(KeyOf(1), kLine, [&](std::span<std::byte>) { EXPECT_TRUE(was_released); });
    });
    std::this_thread::yield();
    was_released = true;
    used.reset();
  }
}

TEST(ChunkCache, AChunkThatSeveralThreadsWantIsDecodedOnce) {
  constexpr int kThreads = 4;
  constexpr std::int64_t kChunks = 200;
  ChunkCache cache(kChunks * kLine);
  std::atomic<int> n_decoded = 0;
  std::barrier together(kThreads);
  RunThreads(kThreads, [&](int) {
    for (std::int64_t chunk = 0; chunk < kChunks; ++chunk) {
      together.arrive_and_wait();
      const auto found = cache.Get(KeyOf(chunk), kLine, [&](std::span<std::byte> bytes) {
        ++n_decoded;
        std::this_thread::yield();
        Fill(chunk)(bytes);
      });
      ExpectFilled(*found, chunk, kLine);
    }
  });
  EXPECT_EQ(n_decoded, kChunks);
}

TEST(ChunkCache, DifferentChunksAreDecodedAtTheSameTime) {
  ChunkCache cache(4 * kLine);
  std::barrier together(4);  // makes all threads start together
  RunThreads(4, [&](int thread) {
    cache.Get(KeyOf(thread), kLine, [&](std::span<std::byte>) { together.arrive_and_wait(); });
  });
  EXPECT_EQ(cache.bytes(), 4 * kLine);
}

TEST(ChunkCache, NeverTakesMoreThanTheLimitWhateverTheThreadsDo) {
  for (const std::size_t limit : {6 * kLine, 9 * kLine, 20 * kLine}) {
    ChunkCache cache(limit);
    std::atomic<std::size_t> in_use = 0;  // counted here: decoded and held by threads
    RunThreads(4, [&](int thread) {
      RandomStream random(static_cast<std::uint64_t>(thread), StreamId::kAugment);
      for (int i = 0; i < 5000; ++i) {
        const std::int64_t chunk = random.UniformInt(30);
        const std::size_t size = 40 + 10 * static_cast<std::size_t>(chunk);
        bool is_counted = false;
        const auto found = cache.Get(KeyOf(chunk), size, [&](std::span<std::byte> bytes) {
          EXPECT_LE(in_use += size, limit);
          is_counted = true;
          EXPECT_LE(cache.bytes(), limit);
          Fill(chunk)(bytes);
        });
        ExpectFilled(*found, chunk, size);
        EXPECT_LE(cache.bytes(), limit);
        if (is_counted) in_use -= size;
      }
    });
    EXPECT_LE(cache.bytes(), limit);
    EXPECT_GT(cache.bytes(), 0U) << "the last chunk stays";
  }
}

TEST(ChunkCache, AFailureTakesNoRoomAndTheNextCallTriesAgain) {
  ChunkCache cache(1 * kLine);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(MessageOf(ErrorCode::kData,
                        [&] {
                          cache.Get(KeyOf(0), kLine, [](std::span<std::byte>) {
                            throw Error(ErrorCode::kData, "damaged");
                          });
                        }),
              "damaged");
    EXPECT_EQ(cache.bytes(), 0U);
  }
  ExpectFilled(*cache.Get(KeyOf(0), kLine, Fill(3)), 3, kLine);
}

TEST(ChunkCache, AFailureReachesEveryThreadThatWantsTheChunk) {
  constexpr int kThreads = 4;
  ChunkCache cache(1 * kLine);
  std::atomic<int> n_failed = 0;
  RunThreads(kThreads, [&](int) {
    try {
      cache.Get(KeyOf(0), kLine,
                [](std::span<std::byte>) { throw Error(ErrorCode::kData, "damaged"); });
    } catch (const Error&) {
      ++n_failed;
    }
  });
  EXPECT_EQ(n_failed, kThreads);
}

}  // namespace
}  // namespace dp_bench::reader
