// Evidence about a score: equal to that of outcomes on binary scores, and a fair game otherwise.
#include "compare/graded_evidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compare/sequential_test.h"

namespace dp_bench::compare {
namespace {

BetMixture Seen(BetMixture evidence, int n_lost, int n_gained, int n_same) {
  for (int i = 0; i < n_lost; ++i) evidence.Add(-1.0);
  for (int i = 0; i < n_gained; ++i) evidence.Add(1.0);
  for (int i = 0; i < n_same; ++i) evidence.Add(0.0);
  return evidence;
}

// 1500 pairs are the most that a gate counts by default; the quadrature is exact up to 511.
TEST(GradedEvidence, IsThatOfOutcomesOnBinaryScores) {
  for (const OutcomeCounts& counts :
       {OutcomeCounts{}, OutcomeCounts{9, 0, 1}, OutcomeCounts{0, 40, 3}, OutcomeCounts{30, 12, 80},
        OutcomeCounts{300, 200, 0}, OutcomeCounts{760, 740, 0}, OutcomeCounts{500, 1000, 0},
        OutcomeCounts{1000, 500, 0}, OutcomeCounts{1500, 0, 0}}) {
    const auto expect = [&](const BetMixture& evidence, double wanted) {
      const double found = Seen(evidence, counts.n_lost, counts.n_gained, counts.n_same).Log();
      EXPECT_NEAR(found, wanted, 1e-9 * std::max(1.0, std::abs(wanted)))
          << counts.n_lost << " lost, " << counts.n_gained << " gained";
    };
    expect(BetMixture::AgainstNoDrop(), LogFailEvidence(counts));
    expect(BetMixture::AgainstDropOf(0.1), PassEvidence(0.1).Log(counts));
    expect(BetMixture::AgainstDropOf(-0.3), PassEvidence(-0.3).Log(counts));
  }
}

// Two changes d and e: the integral of (1 - l d)(1 - l e) over l in (0, 1), by hand.
TEST(GradedEvidence, EqualsTheIntegralOverAllBets) {
  BetMixture evidence = BetMixture::AgainstNoDrop();
  evidence.Add(-0.5);
  EXPECT_NEAR(evidence.Log(), std::log(1.0 + 0.5 / 2.0), 1e-14);
  evidence.Add(0.25);
  EXPECT_NEAR(evidence.Log(), std::log(1.0 + 0.25 / 2.0 - 0.125 / 3.0), 1e-14);
}

// (1 + l (x + D)) for the bets l = (k + 1/2) / 24 / (1 - D), by hand.
TEST(GradedEvidence, IsTheMeanOfTheBetsAgainstAMargin) {
  BetMixture evidence = BetMixture::AgainstDropOf(0.2);
  evidence.Add(0.35);
  evidence.Add(-0.15);
  double sum = 0.0;
  for (int k = 0; k < 24; ++k) {
    const double bet = (k + 0.5) / 24.0 / 0.8;
    sum += (1.0 + bet * 0.55) * (1.0 + bet * 0.05);
  }
  EXPECT_NEAR(evidence.Log(), std::log(sum / 24.0), 1e-13);
}

// A skewed change with the mean of the hypothesis: 0.8 with probability 0.2, else -0.2 or -0.3.
TEST(GradedEvidence, IsAFairGameForSkewedChanges) {
  const auto mean_after = [](const BetMixture& now, double shift) {
    double mean = 0.0;
    for (const auto& [change, p] : {std::pair{0.8, 0.2}, std::pair{-0.2, 0.8}}) {
      BetMixture next = now;
      next.Add(change + shift);
      mean += p * std::exp(next.Log());
    }
    return mean;
  };
  for (BetMixture now :
       {BetMixture::AgainstNoDrop(), Seen(BetMixture::AgainstNoDrop(), 3, 1, 20)}) {
    now.Add(-0.37);
    EXPECT_NEAR(mean_after(now, 0.0), std::exp(now.Log()), 1e-12 * std::exp(now.Log()));
  }
  BetMixture now = Seen(BetMixture::AgainstDropOf(0.1), 2, 5, 7);
  now.Add(0.61);
  EXPECT_NEAR(mean_after(now, -0.1), std::exp(now.Log()), 1e-12 * std::exp(now.Log()));
}

TEST(GradedEvidence, StaysFiniteForTheWorstChanges) {
  EXPECT_TRUE(std::isfinite(Seen(BetMixture::AgainstNoDrop(), 0, 5000, 0).Log()));
  EXPECT_TRUE(std::isfinite(Seen(BetMixture::AgainstDropOf(0.1), 5000, 0, 0).Log()));
}

TEST(GradedEvidence, TheIntervalIsThatOfOutcomesOnBinaryScores) {
  std::vector<double> changes(175, 0.0);
  changes.insert(changes.end(), 20, -1.0);
  changes.insert(changes.end(), 5, 1.0);
  const DropInterval graded = AnytimeScoreDropInterval(changes);
  const DropInterval binary = AnytimeDropInterval({.n_lost = 20, .n_gained = 5, .n_same = 175});
  EXPECT_NEAR(graded.drop, binary.drop, 1e-12);
  EXPECT_NEAR(graded.low, binary.low, 1e-9);
  EXPECT_NEAR(graded.high, binary.high, 1e-9);
  EXPECT_EQ(AnytimeScoreDropInterval(std::vector<double>{}).high, 1.0);
}

}  // namespace
}  // namespace dp_bench::compare
