#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "compare/run_comparison.h"
#include "dp_bench/random.h"
#include "support/json_golden.h"

namespace dp_bench::compare {
namespace {

using Rows = std::vector<std::vector<std::uint8_t>>;

Rows RowsOf(const std::vector<std::string>& texts) {
  Rows rows;
  for (const std::string& text : texts) {
    rows.emplace_back();
    for (const char c : text) rows.back().push_back(c == '1' ? 1 : 0);
  }
  return rows;
}

TEST(BestOfRuns, AgreesWithTheBootstrapOfAnotherImplementation) {
  for (const auto& row : JsonGolden("compare")["best_of"]) {
    const BestOfRuns result = JudgeBestOf(RowsOf(row[0].get<std::vector<std::string>>()));
    // both draw at random: five standard errors of 4000 resamples of rates of 20 seeds or more
    EXPECT_NEAR(result.optimism, std::max(0.0, row[1].get<double>()), 0.007);
    EXPECT_NEAR(result.bound, row[2].get<double>(), 0.007);
  }
}

TEST(BestOfRuns, FindsTheLuckOfTheBestOfTenEqualRuns) {
  // Of ten runs with a true rate of .65 the best of 50 seeds shows .75
  double optimism = 0.0;
  double lead = 0.0;
  constexpr int kTrials = 20;
  for (int trial = 0; trial < kTrials; ++trial) {
    RandomStream random(3, StreamId::kEnvNoise, static_cast<std::uint64_t>(trial));
    Rows rows(10);
    for (auto& row : rows) {
      for (int i = 0; i < 50; ++i) row.push_back(random.UniformDouble() < 0.65 ? 1 : 0);
    }
    const BestOfRuns result = JudgeBestOf(rows);
    const auto& best = rows[result.best];
    lead += std::accumulate(best.begin(), best.end(), 0.0) / 50.0 - 0.65;
    optimism += result.optimism;
  }
  EXPECT_NEAR(lead / kTrials, 0.10, 0.02);
  EXPECT_NEAR(optimism / kTrials, lead / kTrials, 0.02);
}

TEST(BestOfRuns, ARunFarAheadOwesNothingToLuck) {
  const BestOfRuns result = JudgeBestOf(RowsOf(
      {std::string(60, '0') + std::string(40, '1'), std::string(5, '0') + std::string(95, '1')}));
  EXPECT_EQ(result.best, 1U);
  EXPECT_EQ(result.n_seeds, 100);
  EXPECT_LT(result.optimism, 0.005);
  EXPECT_GT(result.bound, 0.01);
}

TEST(BestOfRuns, ACopyOfARunAddsNoLuck) {
  const std::string run = "110101101101011110110101";
  const BestOfRuns result = JudgeBestOf(RowsOf({run, run, run}));
  EXPECT_EQ(result.best, 0U);
  EXPECT_NEAR(result.optimism, 0.0, 0.007);  // the error of one run, whose mean is 0
}

TEST(BestOfRuns, IsTheSameEachTime) {
  const Rows rows = RowsOf({"1101011011", "0101101011", "1101110101"});
  EXPECT_EQ(JudgeBestOf(rows).optimism, JudgeBestOf(rows).optimism);
}

}  // namespace
}  // namespace dp_bench::compare
