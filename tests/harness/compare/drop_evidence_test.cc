// The two e-values: compared with exact arithmetic, and the properties that make them evidence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "compare/sequential_test.h"
#include "support/json_golden.h"

namespace dp_bench::compare {
namespace {

constexpr double kRelativeTolerance = 1e-11;  // relative; lgamma and expm1 of two libraries

double PassEvidenceOf(double margin, const std::vector<double>& changes) {
  PassEvidence evidence(margin);
  for (const double change : changes) evidence.Add(change);
  return evidence.Log();
}

std::vector<double> Changes(int n_lost, int n_gained, int n_same) {
  std::vector<double> changes(static_cast<std::size_t>(n_same), 0.0);
  changes.insert(changes.end(), static_cast<std::size_t>(n_lost), -1.0);
  changes.insert(changes.end(), static_cast<std::size_t>(n_gained), 1.0);
  return changes;
}

void ExpectNearly(double found, double wanted) {
  EXPECT_NEAR(found, wanted, kRelativeTolerance * std::max(1.0, std::abs(wanted)));
}

TEST(FailEvidence, OfOutcomesEqualsExactArithmetic) {
  int n_rows = 0;
  for (const nlohmann::json& row : JsonGolden("compare")["evidence"]) {
    SCOPED_TRACE(row.dump());
    ExpectNearly(LogFailEvidence({.n_lost = row[0], .n_gained = row[1], .n_same = row[2]}), row[3]);
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 15);
  EXPECT_EQ(LogFailEvidence({}), 0.0);
}

TEST(PassEvidence, EqualsExactArithmetic) {
  int n_rows = 0;
  for (const nlohmann::json& row : JsonGolden("compare")["pass"]) {
    SCOPED_TRACE(row.dump().substr(0, 60));
    ExpectNearly(PassEvidenceOf(row[0], row[1]), row[2]);
    ++n_rows;
  }
  EXPECT_EQ(n_rows, 33);
}

// An e-value is a fair game at the edge of its hypothesis: on average, the next pair does not
// change it. The fail side is fair at one half, inside its mixture.
TEST(PassEvidence, IsAFairGameAtTheMargin) {
  const double margin = 0.1;
  const double lost = 0.25;
  const double gained = lost - margin;
  for (const std::vector<double>& now : {Changes(0, 0, 0), Changes(3, 1, 20), Changes(40, 9, 1)}) {
    const auto after = [&](double change) {
      std::vector<double> changes = now;
      changes.push_back(change);
      return std::exp(PassEvidenceOf(margin, changes));
    };
    const double next = lost * after(-1.0) + gained * after(1.0) + (1.0 - lost - gained) * after(0);
    EXPECT_NEAR(next, std::exp(PassEvidenceOf(margin, now)), 1e-12);
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
  const std::vector<double> changes = Changes(20, 5, 175);
  const DropInterval interval = AnytimeDropInterval(changes);
  EXPECT_DOUBLE_EQ(interval.drop, 0.075);
  EXPECT_GT(interval.low, -0.05);
  EXPECT_LT(interval.high, 0.2);
  EXPECT_NEAR(PassEvidenceOf(interval.high, changes), std::log(40.0), 1e-6);
  std::vector<double> reversed = changes;
  for (double& change : reversed) change = -change;
  EXPECT_DOUBLE_EQ(AnytimeDropInterval(reversed).high, -interval.low);
}

TEST(AnytimeDropInterval, KnowsNothingWithoutPairs) {
  const DropInterval interval = AnytimeDropInterval({});
  EXPECT_EQ(interval.low, -1.0);
  EXPECT_EQ(interval.high, 1.0);
  // if every seed was lost, a total drop cannot be excluded
  EXPECT_NEAR(AnytimeDropInterval(Changes(50, 0, 0)).high, 1.0, 1e-9);
}

}  // namespace
}  // namespace dp_bench::compare
