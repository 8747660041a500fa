// The collectives over MPI between three ranks, and rollouts that they share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/ranks.h"

namespace dp_bench::core {
namespace {

using testing::ElementsAre;

constexpr int kRanks = 3;

TEST(MpiCommunicator, KnowsItsRanks) {
  ASSERT_EQ(TestRanks().size(), kRanks);
  EXPECT_EQ(TestRanks().is_root(), TestRanks().rank() == 0);
}

TEST(MpiCommunicator, SumsElementByElement) {
  const auto rank = static_cast<float>(TestRanks().rank());
  std::vector<float> values = {rank, 1.0F, -2.0F * rank};
  TestRanks().AllReduceSum(values);
  EXPECT_THAT(values, ElementsAre(3.0F, 3.0F, -6.0F));
  std::vector<double> doubles = {1e-300 * (1.0 + TestRanks().rank())};
  TestRanks().AllReduceSum(doubles);
  EXPECT_DOUBLE_EQ(doubles[0], 6e-300);
}

TEST(MpiCommunicator, EveryRankGetsTheSameBitsOfASum) {
  // numbers whose sum depends on the order
  const float own = TestRanks().rank() == 1 ? 1e8F : 0.3F + static_cast<float>(TestRanks().rank());
  std::vector<float> values(100'003, own);
  TestRanks().AllReduceSum(values);
  const std::string bytes(reinterpret_cast<const char*>(values.data()),
                          values.size() * sizeof(float));
  EXPECT_EQ(bytes, TestRanks().FromRoot(bytes));
}

TEST(MpiCommunicator, TakesTheMaximum) {
  EXPECT_EQ(TestRanks().AllReduceMax(TestRanks().rank() == 1 ? 7 : -1), 7);
}

TEST(MpiCommunicator, GathersBytesOfAnyLengthInTheOrderOfRanks) {
  const std::string own(static_cast<std::size_t>(TestRanks().rank()), '\0');
  EXPECT_THAT(TestRanks().AllGather(own),
              ElementsAre("", std::string(1, '\0'), std::string(2, '\0')));
}

TEST(MpiCommunicator, BroadcastsFromRankZero) {
  EXPECT_EQ(TestRanks().FromRoot("of rank " + std::to_string(TestRanks().rank())), "of rank 0");
  TestRanks().Barrier();
}

}  // namespace
}  // namespace dp_bench::core
