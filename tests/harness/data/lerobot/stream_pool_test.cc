#include "data/lerobot/stream_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace dp_bench::lerobot {
namespace {

// Counts how many are open.
struct FakeStream {
  FakeStream() { ++n_opened; }
  std::int64_t position() const { return next; }

  std::int64_t next = 0;
  static inline int n_opened = 0;
};

std::unique_ptr<FakeStream> Open() { return std::make_unique<FakeStream>(); }

// The position at which the stream was that the pool chose.
std::int64_t Read(StreamPool<FakeStream>* pool, std::int64_t file, std::int64_t position) {
  std::int64_t was = -1;
  pool->With(file, position, Open, [&](FakeStream& stream) {
    was = stream.next;
    stream.next = position + 1;
  });
  return was;
}

TEST(StreamPool, TheNearestStreamBeforeThePositionReadsOn) {
  StreamPool<FakeStream> pool(4);
  // two streams of one file, at 11 and at 51
  pool.With(7, 10, Open, [&](FakeStream& outer) {
    EXPECT_EQ(Read(&pool, 7, 50), 0) << "the other one is in use";
    outer.next = 11;
  });
  EXPECT_EQ(Read(&pool, 7, 20), 11);
  EXPECT_EQ(Read(&pool, 7, 60), 51);
  EXPECT_EQ(Read(&pool, 7, 5), 61) << "no stream is before 5; any will do";
}

TEST(StreamPool, AFileIsOpenedOnceAndTheOldestIsClosed) {
  FakeStream::n_opened = 0;
  StreamPool<FakeStream> pool(2);
  for (const std::int64_t file : {1, 2, 1, 2, 1}) Read(&pool, file, 0);
  EXPECT_EQ(FakeStream::n_opened, 2);
  Read(&pool, 3, 0);  // closes 2, which was used longest ago
  Read(&pool, 1, 0);
  EXPECT_EQ(FakeStream::n_opened, 3);
  Read(&pool, 2, 0);
  EXPECT_EQ(FakeStream::n_opened, 4);
}

TEST(StreamPool, AStreamThatFailsIsNotUsedAgain) {
  FakeStream::n_opened = 0;
  StreamPool<FakeStream> pool(2);
  EXPECT_THROW(pool.With(1, 0, Open, [](FakeStream&) { throw std::runtime_error("damaged"); }),
               std::runtime_error);
  Read(&pool, 1, 0);
  EXPECT_EQ(FakeStream::n_opened, 2);
}

}  // namespace
}  // namespace dp_bench::lerobot
