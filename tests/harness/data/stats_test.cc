#include "data/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "dp_bench/error.h"
#include "harness/data/fake_dataset.h"
#include "support/error_of.h"

namespace dp_bench::data {
namespace {

// float64 sums of 40000 numbers below 4e5, in another order
constexpr double kRelativeTolerance = 1e-12;

TEST(ComputeStats, EqualsTheClosedFormAcrossBlocks) {
  const std::int64_t n = 40000;  // 24 bytes a step: the last block of 1 MB is not full
  const FakeDataset dataset({100, n});
  const KeyStats stats = ComputeStats(dataset, dataset.KeyIndex("state"));
  ASSERT_EQ(stats.mean.size(), 3U);
  EXPECT_EQ(stats.count, n);
  const double n_squared = static_cast<double>(n) * static_cast<double>(n);
  for (int d = 0; d < 3; ++d) {
    const auto i = static_cast<std::size_t>(d);
    const double mean = 5.0 * static_cast<double>(n - 1) + d;
    const double std = 10.0 * std::sqrt((n_squared - 1.0) / 12.0);
    EXPECT_EQ(stats.min[i], d);
    EXPECT_EQ(stats.max[i], 10.0 * static_cast<double>(n - 1) + d);
    EXPECT_NEAR(stats.mean[i], mean, mean * kRelativeTolerance);
    EXPECT_NEAR(stats.std[i], std, std * kRelativeTolerance);
  }
}

TEST(ComputeStats, CountsImageElementsOneByOneInStorageOrder) {
  const FakeDataset dataset({3});
  const KeyStats stats = ComputeStats(dataset, dataset.KeyIndex("image"));
  ASSERT_EQ(stats.mean.size(), 12U);
  EXPECT_THAT(stats.mean, testing::ElementsAre(7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18));
}

// the reference is numpy: image.astype(float64).reshape(-1, 3) / 255, mean and std over axis 0,
// with image[step, pixel, c] = 7 step + 3 pixel + c
TEST(ComputeChannelStats, AgreesWithNumpyOverAllPixels) {
  const FakeDataset dataset({2, 5});
  const KeyStats stats = ComputeChannelStats(dataset, dataset.KeyIndex("image"));
  EXPECT_EQ(stats.count, 5);
  ASSERT_EQ(stats.mean.size(), 3U);
  for (std::size_t c = 0; c < 3; ++c) {
    const auto channel = static_cast<double>(c);
    EXPECT_DOUBLE_EQ(stats.min[c], channel / 255.0);
    EXPECT_DOUBLE_EQ(stats.max[c], (28.0 + 9.0 + channel) / 255.0);
    EXPECT_NEAR(stats.mean[c], (18.5 + channel) / 255.0, kRelativeTolerance);
    EXPECT_NEAR(stats.std[c], std::sqrt(49.0 * 2.0 + 9.0 * 1.25) / 255.0, kRelativeTolerance);
  }
}

TEST(ComputeChannelStats, RefusesWhatIsNoImage) {
  const FakeDataset dataset({5});
  EXPECT_THROW(ComputeChannelStats(dataset, dataset.KeyIndex("state")), Error);
}

TEST(ComputeStats, NamesTheStepThatIsNotFinite) {
  FakeDataset dataset({9});
  dataset.nan_step = 4;
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { ComputeStats(dataset, 0); }),
              testing::HasSubstr("'action' holds nan at step 4, element 1"));
}

}  // namespace
}  // namespace dp_bench::data
