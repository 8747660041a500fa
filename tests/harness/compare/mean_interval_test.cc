// Against scipy 1.x: scipy.stats.t.interval(confidence, n - 1, mean, std / sqrt(n)).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "compare/intervals.h"
#include "support/json_golden.h"

namespace dp_bench::compare {
namespace {

constexpr double kTolerance = 1e-9;  // two libraries' quantile functions

TEST(StudentInterval, EqualsScipy) {
  const MeanInterval three = StudentInterval(std::vector{0.6, 0.7, 0.8});
  EXPECT_EQ(three.n, 3);
  EXPECT_NEAR(three.mean, 0.7, kTolerance);
  EXPECT_NEAR(three.std_dev, 0.1, kTolerance);
  EXPECT_NEAR(three.low, 0.451586228823, kTolerance);
  EXPECT_NEAR(three.high, 0.948413771177, kTolerance);

  const MeanInterval two = StudentInterval(std::vector{0.0, 1.0}, 0.99);
  EXPECT_NEAR(two.std_dev, std::sqrt(0.5), kTolerance);
  EXPECT_NEAR(two.high, 0.5 + 63.656741162872 * 0.5, 1e-7);
}

TEST(StudentInterval, OneValueSaysNothingAboutTheSpread) {
  const MeanInterval one = StudentInterval(std::vector{0.25});
  EXPECT_EQ(one.mean, 0.25);
  EXPECT_EQ(one.std_dev, 0.0);
  EXPECT_TRUE(std::isinf(one.low) && std::isinf(one.high));
}

TEST(WelchInterval, EqualsScipy) {
  for (const nlohmann::json& row : JsonGolden("compare")["welch"]) {
    SCOPED_TRACE(row.dump());
    const auto a = row[0].get<std::vector<double>>();
    const auto b = row[1].get<std::vector<double>>();
    const MeanInterval interval = WelchInterval(a, b);
    EXPECT_NEAR(interval.low, row[2].get<double>(), 1e-12);
    EXPECT_NEAR(interval.high, row[3].get<double>(), 1e-12);
  }
  const MeanInterval equal = WelchInterval(std::vector{0.5, 0.5}, std::vector{0.75, 0.75});
  EXPECT_EQ(equal.low, 0.25);
  EXPECT_EQ(equal.high, 0.25);
  EXPECT_TRUE(std::isinf(WelchInterval(std::vector{0.5}, std::vector{0.7, 0.8}).high));
}

TEST(StudentInterval, EqualValuesHaveAnIntervalOfNoWidth) {
  const MeanInterval equal = StudentInterval(std::vector{0.5, 0.5, 0.5});
  EXPECT_EQ(equal.low, 0.5);
  EXPECT_EQ(equal.high, 0.5);
}

}  // namespace
}  // namespace dp_bench::compare
