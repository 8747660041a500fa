// Evidence about a score: equal to that of outcomes on binary scores, and a fair game otherwise.
#include "compare/change_evidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compare/sequential_test.h"

namespace dp_bench::compare {
namespace {

template <class Evidence>
Evidence Seen(Evidence evidence, int n_lost, int n_gained, int n_same) {
  for (int i = 0; i < n_lost; ++i) evidence.Add(-1.0);
  for (int i = 0; i < n_gained; ++i) evidence.Add(1.0);
  for (int i = 0; i < n_same; ++i) evidence.Add(0.0);
  return evidence;
}

// 1500 pairs are the most that a gate counts by default; the quadrature is exact up to 511.
TEST(ChangeEvidence, IsThatOfOutcomesOnBinaryScores) {
  for (const OutcomeCounts& counts :
       {OutcomeCounts{}, OutcomeCounts{9, 0, 1}, OutcomeCounts{0, 40, 3}, OutcomeCounts{30, 12, 80},
        OutcomeCounts{300, 200, 0}, OutcomeCounts{760, 740, 0}, OutcomeCounts{500, 1000, 0},
        OutcomeCounts{1000, 500, 0}, OutcomeCounts{1500, 0, 0}}) {
    const double found = Seen(FailEvidence(), counts.n_lost, counts.n_gained, counts.n_same).Log();
    const double wanted = LogFailEvidence(counts);
    EXPECT_NEAR(found, wanted, 1e-9 * std::max(1.0, std::abs(wanted)))
        << counts.n_lost << " lost, " << counts.n_gained << " gained";
  }
}

// Two changes d and e: the integral of (1 - l d)(1 - l e) over l in (0, 1), by hand.
TEST(ChangeEvidence, EqualsTheIntegralOverAllBets) {
  FailEvidence evidence;
  evidence.Add(-0.5);
  EXPECT_NEAR(evidence.Log(), std::log(1.0 + 0.5 / 2.0), 1e-14);
  evidence.Add(0.25);
  EXPECT_NEAR(evidence.Log(), std::log(1.0 + 0.25 / 2.0 - 0.125 / 3.0), 1e-14);
}

// (1 + l (x + D)) for the bets l = (k + 1/2) / 24 / (1 - D), and for those that follow, by hand.
TEST(ChangeEvidence, IsTheMeanOfTheBetsAgainstAMargin) {
  PassEvidence evidence(0.2);
  evidence.Add(0.35);
  evidence.Add(-0.15);
  double sum = 0.0;
  for (int k = 0; k < 24; ++k) {
    const double bet = (k + 0.5) / 24.0 / 0.8;
    sum += (1.0 + bet * 0.55) * (1.0 + bet * 0.05) / 24.0;
  }
  const auto following = [](double mean) {
    const double first = mean / (1.0 / 2.0 + mean * mean);
    const double second = mean / ((1.0 + 0.35 * 0.35) / 3.0 + mean * mean);
    return (1.0 + first * 0.55) * (1.0 + second * 0.05);
  };
  EXPECT_NEAR(evidence.Log(), std::log(0.25 * sum + 0.5 * following(0.2) + 0.25 * following(0.1)),
              1e-13);
}

// Every outcome changes, so few of the constant bets are near the best one: they alone need 14,922
// pairs to exclude a drop of 3 points.
TEST(ChangeEvidence, FollowingBetsNeedFewerPairs) {
  PassEvidence evidence(0.03);
  int n = 0;
  while (evidence.Log() < std::log(20.0)) evidence.Add(n++ % 2 == 0 ? -1.0 : 1.0);
  EXPECT_EQ(n, 7788);
}

// A skewed change with the mean of the hypothesis: 0.8 with probability 0.2, else -0.2 or -0.3.
TEST(ChangeEvidence, IsAFairGameForSkewedChanges) {
  const auto mean_after = [](const auto& now, double shift) {
    double mean = 0.0;
    for (const auto& [change, p] : {std::pair{0.8, 0.2}, std::pair{-0.2, 0.8}}) {
      auto next = now;
      next.Add(change + shift);
      mean += p * std::exp(next.Log());
    }
    return mean;
  };
  for (FailEvidence now : {FailEvidence(), Seen(FailEvidence(), 3, 1, 20)}) {
    now.Add(-0.37);
    EXPECT_NEAR(mean_after(now, 0.0), std::exp(now.Log()), 1e-12 * std::exp(now.Log()));
  }
  PassEvidence now = Seen(PassEvidence(0.1), 2, 5, 7);
  now.Add(0.61);
  EXPECT_NEAR(mean_after(now, -0.1), std::exp(now.Log()), 1e-12 * std::exp(now.Log()));
}

TEST(ChangeEvidence, StaysFiniteForTheWorstChanges) {
  EXPECT_TRUE(std::isfinite(Seen(FailEvidence(), 0, 5000, 0).Log()));
  EXPECT_TRUE(std::isfinite(Seen(PassEvidence(0.1), 5000, 0, 0).Log()));
}

}  // namespace
}  // namespace dp_bench::compare
