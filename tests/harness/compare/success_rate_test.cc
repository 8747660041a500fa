// Intervals against scipy 1.x: scipy.stats.binomtest(k, n).proportion_ci(confidence, method).
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "compare/intervals.h"

namespace dp_bench::compare {
namespace {

constexpr double kQuantileTolerance = 1e-9;  // two libraries' quantile functions

struct Case {
  int n_success;
  int n;
  double confidence;
  double wilson_low, wilson_high;
  double exact_low, exact_high;
};

class SuccessRateGolden : public testing::TestWithParam<Case> {};

TEST_P(SuccessRateGolden, IntervalsEqualScipy) {
  const Case& c = GetParam();
  const RateInterval wilson = WilsonInterval(c.n_success, c.n, c.confidence);
  EXPECT_NEAR(wilson.low, c.wilson_low, kQuantileTolerance);
  EXPECT_NEAR(wilson.high, c.wilson_high, kQuantileTolerance);
  EXPECT_EQ(wilson.n_success, c.n_success);
  EXPECT_EQ(wilson.n, c.n);
  const RateInterval exact = ClopperPearsonInterval(c.n_success, c.n, c.confidence);
  EXPECT_NEAR(exact.low, c.exact_low, kQuantileTolerance);
  EXPECT_NEAR(exact.high, c.exact_high, kQuantileTolerance);
}

INSTANTIATE_TEST_SUITE_P(
    Scipy, SuccessRateGolden,
    testing::Values(
        Case{33, 50, 0.95, 0.521538260502, 0.775630507775, 0.512347512278, 0.787945286565},
        Case{50, 50, 0.95, 0.928652400867, 1.000000000000, 0.928878263536, 1.000000000000},
        Case{0, 50, 0.95, 0.000000000000, 0.071347599133, 0.000000000000, 0.071121736464},
        Case{20, 50, 0.99, 0.243626696363, 0.579803721980, 0.228657206137, 0.590822246113},
        Case{130, 200, 0.95, 0.581634643360, 0.712711758726, 0.579549377522, 0.715929329677},
        Case{1, 1, 0.95, 0.206549314377, 1.000000000000, 0.025000000000, 1.000000000000}));

TEST(SuccessRate, WithoutEpisodesNothingIsKnown) {
  for (const RateInterval& interval : {WilsonInterval(0, 0), ClopperPearsonInterval(0, 0)}) {
    EXPECT_EQ(interval.rate, 0.0);
    EXPECT_EQ(interval.low, 0.0);
    EXPECT_EQ(interval.high, 1.0);
  }
}

TEST(SuccessRate, TheEndsAreExactlyZeroAndOne) {
  EXPECT_EQ(WilsonInterval(0, 37).low, 0.0);
  EXPECT_EQ(WilsonInterval(37, 37).high, 1.0);
  EXPECT_EQ(ClopperPearsonInterval(0, 37).low, 0.0);
  EXPECT_EQ(ClopperPearsonInterval(37, 37).high, 1.0);
}

// Looked at after each of 300 episodes, at most 5 % of the sequences ever leave it.
TEST(AnytimeIntervalTest, HoldsAtEveryLook) {
  constexpr int kSequences = 1000;
  constexpr int kEpisodes = 300;
  std::mt19937_64 random(7);
  for (const double rate : {0.05, 0.5, 0.93}) {
    const auto limit = static_cast<std::uint64_t>(rate * 1e9);
    int n_left = 0;
    for (int i = 0; i < kSequences; ++i) {
      int n_success = 0;
      bool has_left = false;
      for (int n = 1; n <= kEpisodes; ++n) {
        n_success += random() % 1'000'000'000 < limit ? 1 : 0;
        if (has_left || n % 5 != 0) continue;
        const RateInterval interval = AnytimeInterval(n_success, n);
        has_left = interval.low > rate || interval.high < rate;
      }
      n_left += has_left ? 1 : 0;
    }
    EXPECT_LE(n_left, kSequences / 20) << rate;
  }
}

TEST(AnytimeIntervalTest, IsWiderThanWilsonsAndHoldsTheRate) {
  for (const int n_success : {0, 1, 37, 99, 100}) {
    const RateInterval interval = AnytimeInterval(n_success, 100);
    const RateInterval once = WilsonInterval(n_success, 100);
    EXPECT_LE(interval.low, once.low + 1e-12);
    EXPECT_GE(interval.high, once.high - 1e-12);
    EXPECT_LE(interval.low, interval.rate);
    EXPECT_GE(interval.high, interval.rate);
  }
  EXPECT_EQ(AnytimeInterval(0, 0).low, 0.0);
  EXPECT_EQ(AnytimeInterval(0, 0).high, 1.0);
}

}  // namespace
}  // namespace dp_bench::compare
