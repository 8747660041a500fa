// A run of one process, and the shares of a batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "core/communicator.h"
#include "data/sequence_sampler.h"

namespace dp_bench::core {
namespace {

using testing::ElementsAre;

TEST(SingleProcess, KeepsWhatItHas) {
  SingleProcess alone;
  std::array<float, 2> values = {0.1F, 2.0F};
  alone.AllReduceSum(values);
  EXPECT_THAT(values, ElementsAre(0.1F, 2.0F));
  EXPECT_EQ(alone.AllReduceMax(-3), -3);
  EXPECT_THAT(alone.AllGather("a"), ElementsAre("a"));
  EXPECT_EQ(alone.FromRoot("text"), "text");
  EXPECT_TRUE(alone.is_root());
  alone.Barrier();
}

TEST(SingleProcess, IsWhatConnectsWithoutMpirun) { EXPECT_EQ(ConnectRanks()->size(), 1); }

TEST(Shard, SharesAreContiguousAndCoverTheBatchInOrder) {
  for (const std::int64_t n_rows : {0, 1, 2, 5, 7, 64}) {
    for (const int count : {1, 2, 3, 8}) {
      std::int64_t next = 0;
      for (int index = 0; index < count; ++index) {
        const data::Shard shard = {.index = index, .count = count};
        EXPECT_EQ(shard.Begin(n_rows), next);
        next += shard.Size(n_rows);
      }
      EXPECT_EQ(next, n_rows);
    }
  }
}

TEST(Shard, TheFirstProcessHasARowOfEveryBatch) {
  EXPECT_EQ((data::Shard{.index = 0, .count = 3}.Size(1)), 1);
  EXPECT_EQ((data::Shard{.index = 2, .count = 3}.Size(1)), 0);
  EXPECT_EQ((data::Shard{.index = 0, .count = 3}.Size(7)), 3);
  EXPECT_EQ((data::Shard{.index = 2, .count = 3}.Size(7)), 2);
}

}  // namespace
}  // namespace dp_bench::core
