// Cases without golden events in event_proto_test: values that are not finite, many values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "core/random_streams.h"
#include "dp_bench/random.h"
#include "train/event_proto.h"

namespace dp_bench::train {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Histogram, NotFiniteValuesAreInNoBucketAndMakeTheSumNan) {
  const Histogram histogram = MakeHistogram(std::vector<float>{kNan, 1.0F, -kInfinity, kInfinity});
  EXPECT_EQ(std::accumulate(histogram.buckets.begin(), histogram.buckets.end(), 0.0), 1.0);
  EXPECT_EQ(histogram.num, 4.0);
  EXPECT_EQ(histogram.min, 1.0);
  EXPECT_EQ(histogram.max, 1.0);
  EXPECT_TRUE(std::isnan(histogram.sum));
  EXPECT_TRUE(std::isnan(histogram.sum_squares));
}

TEST(Histogram, WithoutAFiniteValueHasOneEmptyBucket) {
  for (const std::vector<float>& values : {std::vector<float>{}, {kNan}}) {
    const Histogram histogram = MakeHistogram(values);
    EXPECT_THAT(histogram.buckets, testing::ElementsAre(0.0));
    EXPECT_THAT(histogram.bucket_limits, testing::ElementsAre(std::numeric_limits<double>::max()));
    EXPECT_TRUE(std::isnan(histogram.min));
    EXPECT_TRUE(std::isnan(histogram.max));
  }
}

TEST(Histogram, BucketsHoldTheValuesBelowTheirLimit) {
  RandomStream random(0, core::kInitStream);
  std::vector<float> values(5000);
  for (float& value : values) value = random.Normal();
  const Histogram histogram = MakeHistogram(values);

  double below = 0.0;
  for (std::size_t i = 0; i < histogram.buckets.size(); ++i) {
    below += histogram.buckets[i];
    const double limit = histogram.bucket_limits[i];
    EXPECT_EQ(below, static_cast<double>(std::ranges::count_if(
                         values, [limit](float value) { return value < limit; })));
  }
  EXPECT_EQ(below, 5000.0);
  EXPECT_LT(histogram.buckets.size(), 450U) << "empty buckets are not merged";
}

}  // namespace
}  // namespace dp_bench::train
