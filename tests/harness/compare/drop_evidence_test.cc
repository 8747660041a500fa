// The two e-values: compared with exact arithmetic, and the properties that make them evidence.
#include <gtest/gtest.h>

#include <cmath>

#include "compare/sequential_test.h"
#include "support/json_golden.h"

namespace dp_bench::compare {
namespace {

constexpr double kRelativeTolerance = 1e-11;  // relative; lgamma and expm1 of two libraries

TEST(DropEvidence, EqualsExactArithmetic) {
  int n_rows = 0;
  for (const nlohmann::json& row : JsonGolden("compare")["evidence"]) {
    SCOPED_TRACE(row.dump());
    const OutcomeCounts counts = {.n_lost = row[0], .n_gained = row[1], .n_same = row[2]};
    const auto expect = [](double found, double wanted) {
      EXPECT_NEAR(found, wanted, kRelativeTolerance * std::max(1.0, std::abs(wanted)));
    };
    expect(LogFailEvidence(counts), row[3]);
    expect(PassEvidence(0.10).Log(counts), row[4]);
    expect(PassEvidence(0.05).Log(counts), row[5]);
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 15);
}

TEST(DropEvidence, IsNoneBeforeTheFirstPair) {
  EXPECT_EQ(LogFailEvidence({}), 0.0);
  EXPECT_EQ(PassEvidence(0.1).Log({}), 0.0);
}

// An e-value is a fair game at the edge of its hypothesis: on average, the next pair does not
// change it. The fail side is fair at one half, inside its mixture.
TEST(PassEvidence, IsAFairGameAtTheMargin) {
  const double margin = 0.1;
  const PassEvidence evidence(margin);
  const double lost = 0.25;
  const double gained = lost - margin;
  for (const OutcomeCounts& now : {OutcomeCounts{}, OutcomeCounts{3, 1, 20}}) {
    const double next =
        lost * std::exp(evidence.Log({now.n_lost + 1, now.n_gained, now.n_same})) +
        gained * std::exp(evidence.Log({now.n_lost, now.n_gained + 1, now.n_same})) +
        (1.0 - lost - gained) * std::exp(evidence.Log({now.n_lost, now.n_gained, now.n_same + 1}));
    EXPECT_NEAR(next, std::exp(evidence.Log(now)), 1e-12);
  }
}

TEST(FailEvidence, IsAFairGameWhenLossAndGainAreEquallyLikely) {
  for (const OutcomeCounts& now :
       {OutcomeCounts{}, OutcomeCounts{3, 1, 20}, OutcomeCounts{9, 30, 1}}) {
    const double next =
        0.5 * std::exp(LogFailEvidence({now.n_lost + 1, now.n_gained, now.n_same})) +
        0.5 * std::exp(LogFailEvidence({now.n_lost, now.n_gained + 1, now.n_same}));
    EXPECT_NEAR(next, std::exp(LogFailEvidence(now)), 1e-12 * next);
  }
}

TEST(AnytimeDropInterval, EndsWhereTheEvidenceSpeaks) {
  const OutcomeCounts counts = {.n_lost = 20, .n_gained = 5, .n_same = 175};
  const DropInterval interval = AnytimeDropInterval(counts);
  EXPECT_DOUBLE_EQ(interval.drop, 0.075);
  EXPECT_GT(interval.low, -0.05);
  EXPECT_LT(interval.high, 0.2);
  EXPECT_NEAR(PassEvidence(interval.high).Log(counts), std::log(40.0), 1e-6);
  const OutcomeCounts reversed = {.n_lost = 5, .n_gained = 20, .n_same = 175};
  EXPECT_DOUBLE_EQ(AnytimeDropInterval(reversed).high, -interval.low);
}

TEST(AnytimeDropInterval, KnowsNothingWithoutPairs) {
  const DropInterval interval = AnytimeDropInterval({});
  EXPECT_EQ(interval.low, -1.0);
  EXPECT_EQ(interval.high, 1.0);
  // if every seed was lost, a total drop cannot be excluded
  EXPECT_NEAR(AnytimeDropInterval({.n_lost = 50}).high, 1.0, 1e-9);
}

}  // namespace
}  // namespace dp_bench::compare
