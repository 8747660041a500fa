// Pairs that a gate needs, against a formula for the growth of the evidence.
#include "compare/gate_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "compare/graded_score.h"
#include "harness/compare/run_folders.h"
#include "report/gate_output.h"
#include "support/error_of.h"

namespace dp_bench::compare {
namespace {

using testing::HasSubstr;

PlannedDrop Planned(const run::RunFolder& baseline, const run::RunFolder* candidate, double drop,
                    double correlation = 0.0) {
  return PlanGate(baseline, candidate, {}, {.drops = {drop}, .correlation = correlation}).drops[0];
}

// The mean number of pairs until ln E = ln(1 / alpha), where a share `lost` and a share `gained` of
// the pairs multiply the wealth of the bet l by 1 + l and 1 - l. Laplace's approximation of the
// mixture: ln E = n g + 1/2 + ln(2 pi / (n c)) / 2 on average, with the best growth rate g, the
// curvature c at the best bet, and 1/2 because the best bet for the data grows by more than g. Half
// a block passes on average until the next look.
double FormulaPairs(double lost, double gained, const SequentialTestConfig& config) {
  const double bet = (lost - gained) / (lost + gained);
  const double growth = lost * std::log1p(bet) + gained * std::log1p(-bet);
  const double curvature =
      lost / ((1.0 + bet) * (1.0 + bet)) + gained / ((1.0 - bet) * (1.0 - bet));
  double n = 100.0;
  for (int i = 0; i < 100; ++i) {
    n = (-std::log(config.alpha) - 0.5 - 0.5 * std::log(2.0 * std::numbers::pi / (n * curvature))) /
        growth;
  }
  return n + 0.5 * config.block_size;
}

TEST(GatePlan, NeedsThePairsOfTheGrowthFormula) {
  // 60 % success, and a tenth of the seeds each lost and gained without a drop
  const run::RunFolder baseline =
      SmallRun(Times(50, "s") + Times(10, "s") + Times(10, "f") + Times(30, "f"));
  const run::RunFolder candidate =
      SmallRun(Times(50, "s") + Times(10, "f") + Times(10, "s") + Times(30, "f"));
  for (const double drop : {0.05, 0.10, 0.20}) {
    const PlannedDrop planned = Planned(baseline, &candidate, drop);
    const double share = drop / 0.6;  // of the new successes
    const double formula = FormulaPairs(0.1 + share * 0.5, 0.1 * (1.0 - share), {});
    EXPECT_NEAR(planned.mean.value(), formula, 0.1 * formula) << drop;
    EXPECT_NEAR(planned.score_drop, drop, 1e-12);
  }
}

TEST(GatePlan, MoreCorrelationNeedsFewerPairs) {
  const run::RunFolder baseline = SmallRun(Times(70, "s") + Times(30, "f"));
  int before = kMaxPlannedPairs;
  for (const double correlation : {0.0, 0.3, 0.6, 0.9}) {
    const PlannedDrop planned = Planned(baseline, nullptr, 0.10, correlation);
    EXPECT_LT(planned.median.value(), before) << correlation;
    EXPECT_LE(planned.median, planned.quantile_90);
    before = planned.median.value();
  }
}

TEST(GatePlan, MeasuresTheCorrelationThatItAssumesElsewhere) {
  const run::RunFolder baseline = SmallRun(Times(50, "ssff"));
  const run::RunFolder candidate = SmallRun(Times(40, "ssff") + Times(10, "ffss"));
  const GatePlan measured = PlanGate(baseline, &candidate, {}, {.drops = {0.1}});
  EXPECT_TRUE(measured.is_measured);
  EXPECT_NEAR(measured.correlation, 0.6, 1e-12);
  const PlannedDrop assumed = Planned(baseline, nullptr, 0.1, 0.6);
  EXPECT_NEAR(measured.drops[0].mean.value(), assumed.mean.value(), 0.1 * assumed.mean.value());
}

TEST(GatePlan, EqualRunsShowOnlyThePlantedDrop) {
  const run::RunFolder run = SmallRun(Times(60, "s") + Times(40, "f"));
  const GatePlan plan = PlanGate(run, &run, {}, {.drops = {0.2}});
  EXPECT_TRUE(plan.has_equal_pairs);
  EXPECT_DOUBLE_EQ(plan.correlation, 1.0);
  // 8 losses without a gain are the first with E >= 100: (2^9 - 1) / 9 = 57, (2^10 - 1) / 10 = 102
  EXPECT_NEAR(plan.drops[0].mean.value(), 9 / 0.2 + 5, 3.0);
  EXPECT_EQ(plan.drops[0].fail_rate, 1.0);
}

TEST(GatePlan, LeavesOutUsualDropsAboveTheSuccessRate) {
  const run::RunFolder baseline = SmallRun(Times(15, "s") + Times(85, "f"));
  const std::vector<double> usual(kUsualDrops.begin(), kUsualDrops.end());
  const GatePlan plan = PlanGate(baseline, nullptr, {}, {.drops = usual});
  ASSERT_EQ(plan.drops.size(), 3U);
  EXPECT_EQ(plan.drops.back().drop, 0.1);
  EXPECT_THAT(
      MessageOf(ErrorCode::kUsage,
                [&] { PlanGate(SmallRun(Times(99, "f") + "s"), nullptr, {}, {.drops = usual}); }),
      HasSubstr("the success rate is 0.01"));
}

TEST(GatePlan, ADropMayBeTheWholeSuccessRate) {
  const run::RunFolder baseline = SmallRun("ss" + Times(8, "f"));
  const std::vector<double> usual(kUsualDrops.begin(), kUsualDrops.end());
  EXPECT_EQ(PlanGate(baseline, nullptr, {}, {.drops = usual}).drops.size(), usual.size());
  EXPECT_EQ(Planned(baseline, nullptr, 0.2).drop, 0.2);
}

TEST(GatePlan, DecidesByTheScoreOfTheBaseline) {
  run::RunFolder baseline = SmallRun(Times(80, "s") + Times(20, "f"));
  const PlannedDrop by_success = Planned(baseline, nullptr, 0.1);
  // failures score 0.5, so all changes are half as large; bets twice as large grow as fast
  baseline.decided_by = kByScore;
  const PlannedDrop by_score = Planned(baseline, nullptr, 0.1);
  EXPECT_NEAR(by_score.score_drop, 0.05, 1e-12);
  EXPECT_NEAR(by_score.mean.value(), by_success.mean.value(), 0.15 * by_success.mean.value());
  // scores of 0 and 1 are outcomes
  for (run::EpisodeRecord& record : baseline.episodes) record.score = record.success ? 1.0 : 0.0;
  const PlannedDrop by_outcome = Planned(baseline, nullptr, 0.1);
  EXPECT_EQ(by_outcome.median, by_success.median);
  EXPECT_EQ(by_outcome.fail_rate, by_success.fail_rate);
}

TEST(GatePlan, CountsWhatAGateOfMaxPairsDecides) {
  const run::RunFolder baseline = SmallRun(Times(80, "s") + Times(20, "f"));
  const GatePlan plan = PlanGate(baseline, nullptr, {.max_pairs = 100}, {.drops = {0.02, 0.4}});
  EXPECT_LT(plan.drops[0].fail_rate, 0.05);
  EXPECT_GT(plan.drops[0].pass_rate, plan.drops[1].pass_rate);
  EXPECT_GT(plan.drops[1].fail_rate, 0.95);
  EXPECT_FALSE(plan.drops[0].mean.has_value());  // some of these gates need over 20,000 pairs
}

TEST(GatePlan, SaysWhatToGiveInsteadOfAnImpossibleDrop) {
  const run::RunFolder baseline = SmallRun(Times(60, "s") + Times(40, "f"));
  const auto fault = [&](double drop, double correlation = 0.0) {
    return MessageOf(ErrorCode::kUsage, [&] { Planned(baseline, nullptr, drop, correlation); });
  };
  EXPECT_THAT(fault(0.0), HasSubstr("give the smallest drop that the gate must not miss"));
  EXPECT_THAT(fault(5.0), HasSubstr("5 points are 0.05"));
  EXPECT_THAT(fault(0.7), HasSubstr("the success rate is 0.6, so give at most that"));
  EXPECT_THAT(fault(std::nan("")), HasSubstr("cannot be planned"));
  EXPECT_THAT(fault(0.1, 1.0), HasSubstr("less than 1"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [] { Planned(SmallRun("ffff"), nullptr, 0.1); }),
              HasSubstr("no episode was successful"));
}

TEST(GatePlan, TextAndJsonSayWhatIsBeyondTheLimit) {
  const run::RunFolder baseline = SmallRun(Times(50, "s") + Times(50, "f"));
  const std::vector<GatePlan> plans = {
      PlanGate(baseline, nullptr, {}, {.drops = {0.005, 0.2}, .correlation = 0.0})};
  const std::string text = report::GatePlanText(plans);
  EXPECT_THAT(text, HasSubstr("success rate 50.0 %, correlation 0.00 assumed"));
  EXPECT_THAT(text, HasSubstr("> 20000"));
  EXPECT_THAT(text, HasSubstr("0.5 points"));
  const nlohmann::json drops = ToJson(plans)["tasks"][0]["drops"];
  EXPECT_TRUE(drops[0]["median"].is_null());
  EXPECT_EQ(drops[1]["median"], plans[0].drops[1].median.value());
}

}  // namespace
}  // namespace dp_bench::compare
