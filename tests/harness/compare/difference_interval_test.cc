// Compared with scipy and statsmodels, and with the tables behind the design of the gate.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compare/intervals.h"
#include "support/json_golden.h"

namespace dp_bench::compare {
namespace {

constexpr double kTolerance = 1e-10;  // two libraries' quantiles and binomial sums

TEST(NewcombePairedInterval, EqualsThatOfStatsmodelsParts) {
  int n_rows = 0;
  for (const nlohmann::json& row : JsonGolden("compare")["newcombe"]) {
    SCOPED_TRACE(row.dump());
    const PairCounts counts = {
        .both_succeed = row[0], .only_a = row[1], .only_b = row[2], .neither = row[3]};
    const DifferenceInterval interval = NewcombePairedInterval(counts, row[4]);
    EXPECT_NEAR(interval.low, row[5], kTolerance);
    EXPECT_NEAR(interval.high, row[6], kTolerance);
    EXPECT_DOUBLE_EQ(interval.difference,
                     static_cast<double>(counts.only_b - counts.only_a) / counts.n());
    EXPECT_LE(interval.low, interval.difference);
    EXPECT_GE(interval.high, interval.difference);
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 24);
}

// Altman et al. 2000, "Statistics with confidence", table 6.2; Bentur et al. 2009 as in Fagerland,
// Lydersen and Laake 2013. Both give A minus B.
TEST(NewcombePairedInterval, EqualsPublishedExamples) {
  const DifferenceInterval altman =
      NewcombePairedInterval({.both_succeed = 14, .only_a = 5, .only_b = 0, .neither = 22});
  EXPECT_NEAR(altman.low, -0.226, 5e-4);
  EXPECT_NEAR(altman.high, -0.011, 5e-4);
  const DifferenceInterval bentur =
      NewcombePairedInterval({.both_succeed = 1, .only_a = 1, .only_b = 7, .neither = 12});
  EXPECT_NEAR(bentur.low, 0.026, 5e-4);
  EXPECT_NEAR(bentur.high, 0.507, 5e-4);
}

TEST(NewcombePairedInterval, KnowsNothingWithoutPairs) {
  EXPECT_EQ(NewcombePairedInterval({}).low, -1.0);
  EXPECT_EQ(NewcombePairedInterval({}).high, 1.0);
}

TEST(McNemar, EqualsStatsmodelsAndScipy) {
  int n_rows = 0;
  for (const nlohmann::json& row : JsonGolden("compare")["mcnemar"]) {
    SCOPED_TRACE(row.dump());
    const PairCounts counts = {.only_a = row[0], .only_b = row[1]};
    EXPECT_NEAR(McNemarExactP(counts), row[2], kTolerance);
    EXPECT_NEAR(McNemarMidP(counts), row[3], kTolerance);
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 9);
}

TEST(McNemar, SaysNothingWithoutDiscordantSeeds) {
  EXPECT_EQ(McNemarExactP({.both_succeed = 30, .neither = 20}), 1.0);
  EXPECT_EQ(McNemarMidP({.both_succeed = 30, .neither = 20}), 1.0);
}

TEST(HolmAdjusted, EqualsStatsmodels) {
  for (const nlohmann::json& row : JsonGolden("compare")["holm"]) {
    const auto adjusted = HolmAdjusted(row[0].get<std::vector<double>>());
    const auto wanted = row[1].get<std::vector<double>>();
    ASSERT_EQ(adjusted.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(adjusted[i], wanted[i], 1e-15);
  }
  EXPECT_TRUE(HolmAdjusted({}).empty());
}

struct PairsCase {
  double rate, drop;
  int rho_3, rho_5, rho_7;  // pairs with a correlation of .3, .5, .7
};

PowerQuestion Question(double rate, double drop, double rho) {
  const double other = rate - drop;
  const double both =
      std::min(other, rate * other + rho * std::sqrt(rate * (1 - rate) * other * (1 - other)));
  return {.difference = drop, .discordant_rate = rate + other - 2.0 * both};
}

TEST(PairsToDetect, EqualsTheTableOfTheDesign) {
  for (const PairsCase& c :
       {PairsCase{0.65, 0.05, 814, 581, 345}, PairsCase{0.65, 0.10, 210, 147, 87},
        PairsCase{0.65, 0.20, 54, 39, 27}, PairsCase{0.90, 0.05, 378, 267, 161},
        PairsCase{0.90, 0.10, 109, 80, 54}, PairsCase{0.90, 0.20, 36, 27, 27}}) {
    EXPECT_EQ(PairsToDetect(Question(c.rate, c.drop, 0.3)), c.rho_3);
    EXPECT_EQ(PairsToDetect(Question(c.rate, c.drop, 0.5)), c.rho_5);
    EXPECT_EQ(PairsToDetect(Question(c.rate, c.drop, 0.7)), c.rho_7);
  }
}

TEST(PairsToDetect, EqualsScipy) {
  int n_rows = 0;
  for (const nlohmann::json& row : JsonGolden("compare")["pairs"]) {
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(PairsToDetect(Question(row[0], row[1], row[2])), row[3].get<int>());
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 18);
}

RateInterval Rate(int n_success, int n) { return WilsonInterval(n_success, n); }

TEST(UnpairedRuns, EqualScipyAndStatsmodels) {
  int n_rows = 0;
  for (const nlohmann::json& row : JsonGolden("compare")["unpaired"]) {
    SCOPED_TRACE(row.dump());
    const RateInterval a = Rate(row[0], row[1]);
    const RateInterval b = Rate(row[2], row[3]);
    EXPECT_NEAR(FisherExactP(a, b), row[4].get<double>(), 1e-12);
    EXPECT_NEAR(FisherExactP(b, a), row[4].get<double>(), 1e-12);
    const DifferenceInterval interval = NewcombeInterval(a, b);
    EXPECT_DOUBLE_EQ(interval.difference, b.rate - a.rate);
    EXPECT_NEAR(interval.low, row[5].get<double>(), 1e-12);
    EXPECT_NEAR(interval.high, row[6].get<double>(), 1e-12);
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 5);
}

TEST(EpisodesToDetect, EqualsFleiss) {
  EXPECT_EQ(EpisodesToDetect(0.8, 0.75), 1094);
  EXPECT_EQ(EpisodesToDetect(0.9, 0.95), 435);
  EXPECT_EQ(EpisodesToDetect(0.95, 0.9), 435);
  EXPECT_FALSE(EpisodesToDetect(0.5, 0.50001));
  EXPECT_FALSE(EpisodesToDetect(0.5, 0.5));
}

TEST(EpisodesToDetectFrom, AKnownRateNeedsFewer) {
  EXPECT_EQ(EpisodesToDetectFrom(0.95, 0.9), 185);
  EXPECT_FALSE(EpisodesToDetectFrom(1.0, 1.0));
}

TEST(PairsToDetect, GivesUpOnWhatNoEvaluationCanShow) {
  EXPECT_FALSE(PairsToDetect({.difference = 1e-4, .discordant_rate = 0.5}).has_value());
  EXPECT_TRUE(PairsToDetect({.difference = 1.0, .discordant_rate = 1.0}).has_value());
}

TEST(EstimateDiscordantRate, IsNeverZero) {
  EXPECT_DOUBLE_EQ(EstimateDiscordantRate({.both_succeed = 8}), 0.1);
  EXPECT_DOUBLE_EQ(EstimateDiscordantRate({}), 0.5);
}

}  // namespace
}  // namespace dp_bench::compare
