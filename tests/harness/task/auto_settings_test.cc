// The search for the largest batch that fits.
#include "task/auto_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace dp_bench::task {
namespace {

using testing::ElementsAre;

std::optional<std::int64_t> Search(std::int64_t batch_size, std::int64_t limit,
                                   std::vector<std::int64_t>* tried) {
  return LargestFittingBatch(batch_size, [&](std::int64_t n) {
    tried->push_back(n);
    return n <= limit;
  });
}

TEST(LargestFittingBatch, IsTheLargestDivisorThatFits) {
  std::vector<std::int64_t> tried;
  EXPECT_EQ(Search(48, 15, &tried), 12);
  EXPECT_THAT(tried, ElementsAre(48, 24, 16, 12));
}

TEST(LargestFittingBatch, IsTheWholeBatchAfterOneTrialIfItFits) {
  std::vector<std::int64_t> tried;
  EXPECT_EQ(Search(64, 1000, &tried), 64);
  EXPECT_THAT(tried, ElementsAre(64));
}

TEST(LargestFittingBatch, IsNoneIfNotEvenOneSampleFits) {
  std::vector<std::int64_t> tried;
  EXPECT_EQ(Search(7, 0, &tried), std::nullopt);
  EXPECT_THAT(tried, ElementsAre(7, 1));
}

TEST(LargestFittingBatch, EndsAfterSixteenTrialsWithASingleSample) {
  std::vector<std::int64_t> tried;
  EXPECT_EQ(Search(720720, 1, &tried), 1);  // has 240 divisors
  EXPECT_EQ(tried.size(), 16U);
  EXPECT_EQ(tried.back(), 1);
}

}  // namespace
}  // namespace dp_bench::task
