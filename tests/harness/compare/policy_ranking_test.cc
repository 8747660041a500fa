#include "compare/policy_ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compare/sequential_test.h"
#include "harness/compare/run_folders.h"

namespace dp_bench::compare {
namespace {

using testing::ElementsAre;

std::vector<double> Wins(int n_a, int n_b, int n_ties = 0) {
  std::vector<double> differences(static_cast<std::size_t>(n_a), 1.0);
  differences.insert(differences.end(), static_cast<std::size_t>(n_b), -1.0);
  differences.insert(differences.end(), static_cast<std::size_t>(n_ties), 0.0);
  return differences;
}

RankedPair Shown(std::size_t better, std::size_t worse, double e_value) {
  RankedPair pair = {.a = std::min(better, worse), .b = std::max(better, worse)};
  (better < worse ? pair.evidence.log_a_better : pair.evidence.log_b_better) = std::log(e_value);
  return pair;
}

TEST(EvidenceOf, IsOneWithoutADifference) {
  const PairEvidence evidence = EvidenceOf(Wins(0, 0, 50));
  EXPECT_NEAR(evidence.log_a_better, 0.0, 1e-12);
  EXPECT_NEAR(evidence.log_b_better, 0.0, 1e-12);
}

TEST(EvidenceOf, HasBothDirections) {
  const PairEvidence evidence = EvidenceOf(Wins(12, 3));
  const PairEvidence reversed = EvidenceOf(Wins(3, 12));
  EXPECT_EQ(evidence.log_a_better, reversed.log_b_better);
  EXPECT_GT(evidence.log_a_better, 1.0);
  EXPECT_LT(evidence.log_b_better, 0.0);
}

// The gate's evidence has the same bets with other weights.
TEST(EvidenceOf, OfSingleEpisodesIsCloseToThatOfTheGate) {
  for (const auto& [n_a, n_b] : {std::pair(10, 0), std::pair(30, 10), std::pair(300, 200)}) {
    const double gate = LogFailEvidence({.n_lost = n_a, .n_gained = n_b});
    EXPECT_NEAR(EvidenceOf(Wins(n_a, n_b)).log_a_better, gate, 1.6) << n_a << " " << n_b;
  }
}

// The definition: with d or -d equally likely, the expected evidence is 1, also for graded
// differences.
TEST(EvidenceOf, HasTheExpectationOneIfBothSignsAreEquallyLikely) {
  const std::vector<double> sizes = {1.0, 0.25, 0.02, 0.5, 0.1, 0.0, 0.75, 1.0};
  double sum = 0.0;
  for (int signs = 0; signs < 256; ++signs) {
    std::vector<double> differences;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      differences.push_back((signs >> k & 1) != 0 ? sizes[k] : -sizes[k]);
    }
    sum += std::exp(EvidenceOf(differences).log_a_better);
  }
  EXPECT_NEAR(sum / 256.0, 1.0, 1e-12);
}

TEST(EvidenceOf, GrowsFastForSmallDifferencesThatRepeat) {
  EXPECT_GT(EvidenceOf(std::vector<double>(20, 0.05)).log_a_better, std::log(1e4));
}

// lerobot#4327: 4 tasks x 5 episodes, 17 of 20 with one task at a time, 0 of 20 with four.
TEST(EvidenceOf, ShowsThatSharedQueuesBreakAPolicy) {
  std::vector<run::RunFolder> runs(3);
  runs[0].episodes = SmallEpisodes(Times(17, "s") + "fff");
  runs[1].episodes = SmallEpisodes(Times(20, "f"));
  runs[2].episodes = SmallEpisodes(Times(20, "f"));
  const RunComparison comparison = CompareRuns(runs, {});
  EXPECT_GT(comparison.pairs[0].evidence.log_a_better, std::log(5e3));
  EXPECT_EQ(comparison.runs[0].letters, "a");
  EXPECT_EQ(comparison.runs[0].rank, (RankInterval{1, 1}));
  EXPECT_EQ(comparison.runs[1].letters, "b");
  EXPECT_EQ(comparison.runs[1].rank, (RankInterval{2, 3}));
}

// 6 hypotheses at 5 %: the k-th largest e-value must reach 120 / k.
TEST(NameDifferences, NamesMoreIfMoreIsShown) {
  std::vector<RankedPair> pairs = {Shown(0, 1, 60), Shown(0, 2, 59), Shown(1, 2, 1)};
  NameDifferences(pairs);
  EXPECT_FALSE(pairs[0].is_different || pairs[1].is_different || pairs[2].is_different);
  pairs[1] = Shown(2, 0, 61);
  NameDifferences(pairs);
  EXPECT_TRUE(pairs[0].is_different && pairs[1].is_different);
  EXPECT_FALSE(pairs[2].is_different);
}

TEST(RankIntervals, AreThoseThatAreNotRuledOut) {
  EXPECT_THAT(RankIntervals(3, std::vector<RankedPair>{}),
              ElementsAre(RankInterval{1, 3}, RankInterval{1, 3}, RankInterval{1, 3}));
  const std::vector<RankedPair> pairs = {Shown(1, 0, 1000), Shown(2, 0, 1000), Shown(1, 2, 1)};
  EXPECT_THAT(RankIntervals(3, pairs),
              ElementsAre(RankInterval{3, 3}, RankInterval{1, 2}, RankInterval{1, 2}));
}

// Holm: of 6 hypotheses the first needs 120, the next one 100.
TEST(RankIntervals, HoldAllAtOnce) {
  EXPECT_EQ(RankIntervals(
                3, std::vector<RankedPair>{Shown(0, 1, 119), Shown(0, 2, 101), Shown(1, 2, 1)})[0],
            (RankInterval{1, 3}));
  EXPECT_EQ(RankIntervals(
                3, std::vector<RankedPair>{Shown(0, 1, 121), Shown(0, 2, 101), Shown(1, 2, 1)})[0],
            (RankInterval{1, 1}));
}

TEST(RankIntervals, HaveAShortText) {
  EXPECT_EQ(RankText({2, 2}), "2");
  EXPECT_EQ(RankText({1, 3}), "1 to 3");
}

TEST(LettersByRate, AreGivenByMerit) {
  std::vector<RankedPair> pairs = {Shown(1, 0, 1000)};
  pairs[0].is_different = true;
  EXPECT_THAT(LettersByRate(std::vector<double>{0.1, 0.9, 0.5}, pairs),
              ElementsAre("b", "a", "ab"));
}

}  // namespace
}  // namespace dp_bench::compare
