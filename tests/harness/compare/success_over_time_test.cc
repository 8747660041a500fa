// Success over time against published figures and sums by hand.
#include "compare/success_over_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/success_over_time.h"
#include "run/episode_log.h"

namespace dp_bench::compare {
namespace {

// Remission of leukaemia under 6-mercaptopurine, weeks (Freireich et al. 1963), a textbook example:
// the estimates and Greenwood's standard errors of Cox and Oakes (1984).
const std::vector<ObservedTime> kRemissions = {
    {6, true},   {6, true},   {6, true},   {6, false},  {7, true},   {9, false},  {10, true},
    {10, false}, {11, false}, {13, true},  {16, true},  {17, false}, {19, false}, {20, false},
    {22, true},  {23, true},  {25, false}, {32, false}, {32, false}, {34, false}, {35, false}};

TEST(KaplanMeier, EqualsTheTextbook) {
  struct Row {
    int step;
    double survival, error;
  };
  const std::vector<Row> rows = {{6, .8571, .0764},  {7, .8067, .0869},  {10, .7529, .0963},
                                 {13, .6902, .1068}, {16, .6275, .1141}, {22, .5378, .1282},
                                 {23, .4482, .1346}};
  const std::vector<SuccessByStep> curve = KaplanMeier(kRemissions);
  ASSERT_EQ(curve.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(curve[i].step, rows[i].step);
    EXPECT_NEAR(1.0 - curve[i].share, rows[i].survival, 5e-5);
    // from the interval back to the standard error of S
    const double survival = 1.0 - curve[i].share;
    const double log_log = std::log(std::log(1.0 - curve[i].high) / std::log(survival));
    EXPECT_NEAR(log_log / 1.959964 * survival * -std::log(survival), rows[i].error, 1e-4);
  }
}

TEST(RestrictedMeanTime, IsTheMeanIfNothingIsCensoredBefore) {
  const std::vector<ObservedTime> times = {{10, true}, {20, true}, {20, true}, {50, false}};
  const MeanInterval found = RestrictedMeanTime(times, 50);
  EXPECT_NEAR(found.mean, (10 + 20 + 20 + 50) / 4.0, 1e-12);
  // Greenwood's variance is then that of the mean with divisor n: squares 225, 25, 25, 625
  EXPECT_NEAR((found.high - found.low) / 2.0 / 1.959964, std::sqrt(900.0 / 16.0), 1.0);
  EXPECT_LE(found.high, 50.0);
}

TEST(RestrictedMeanTime, IsTheAreaBelowTheCurve) {
  double area = 6.0;
  const std::vector<SuccessByStep> curve = KaplanMeier(kRemissions);
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const int until = i + 1 < curve.size() ? curve[i + 1].step : 35;
    area += (1.0 - curve[i].share) * (until - curve[i].step);
  }
  const MeanInterval found = RestrictedMeanTime(kRemissions, 35);
  EXPECT_NEAR(found.mean, area, 1e-12);
  EXPECT_NEAR(found.mean, 23.287, 1e-3);  // Klein and Moeschberger 2003, example 4.2: 23.287
  EXPECT_NEAR((found.high - found.low) / 2.0 / 1.959964, 2.827, 2e-3);  // their standard error
}

TEST(KaplanMeier, TheLastPointDoesNotLoseItsLowerBound) {
  std::vector<ObservedTime> times;
  for (int step = 1; step <= 20; ++step) times.push_back({.step = step, .is_success = true});
  const std::vector<SuccessByStep> curve = KaplanMeier(times);
  ASSERT_EQ(curve.size(), 20U);
  EXPECT_EQ(curve[19].share, 1.0);
  EXPECT_EQ(curve[19].low, curve[18].low);
  EXPECT_GT(curve[19].low, 0.7);
}

TEST(RestrictedMeanTime, OneEpisodeShowsNoSpread) {
  const MeanInterval found = RestrictedMeanTime(std::vector<ObservedTime>{{136, true}}, 300);
  EXPECT_EQ(found.mean, 136.0);
  EXPECT_EQ(found.low, 0.0);
  EXPECT_EQ(found.high, 300.0);
}

run::EpisodeRecord TimedEpisode(int n_steps, run::SuccessSteps steps) {
  run::EpisodeRecord record = {.split = "test"};
  record.n_steps = n_steps;
  record.success = steps.first > 0;
  record.success_steps = steps;
  return record;
}

TEST(SuccessSteps, KeepTheFirstTheLongestAndTheLastRow) {
  run::SuccessSteps steps;
  int step = 0;
  for (const bool is_success : {false, true, true, true, false, true, true}) {
    steps.Add(++step, is_success);
  }
  EXPECT_EQ(steps, (run::SuccessSteps{.first = 2, .longest = 3, .at_end = 2}));
}

TEST(SuccessSteps, AreInTheRowOfAnEpisodeThatSucceeded) {
  const run::EpisodeRecord record = TimedEpisode(100, {40, 12, 3});
  const std::string row = run::EpisodeRow(record, {});
  EXPECT_NE(row.find(R"("success_steps":{"at_end":3,"first":40,"longest":12})"), std::string::npos)
      << row;
  EXPECT_EQ(run::ParseEpisodes(row + "\n", "rows", {})[0].success_steps, record.success_steps);
  EXPECT_EQ(run::EpisodeRow(TimedEpisode(100, {}), {}).find("success_steps"), std::string::npos);
}

TEST(SuccessOverTime, IsShownWithAWarningIfTheDefinitionsDisagree) {
  std::vector<run::EpisodeRecord> records(30, TimedEpisode(100, {40, 61, 61}));
  EXPECT_EQ(report::SuccessOverTimeJson(records, "train", 100), nullptr);
  const auto text = [&records] {
    return report::SuccessOverTimeJson(records, "test", 100, 10.0)["text"].get<std::string>();
  };
  EXPECT_EQ(
      text(),
      "time to success, at most 100 steps: mean 40.0 (40.0 to 40.0); 10 (10 to 10) successes per "
      "1,000 steps, 360 (360 to 360) per simulated hour; success at any time 1.000, at the end "
      "1.000, held for 10 steps 1.000");
  records.insert(records.end(), 30, TimedEpisode(100, {40, 5, 0}));
  EXPECT_NE(text().find("held for 10 steps 0.500: WARNING"), std::string::npos) << text();
}

TEST(SuccessOverTime, TellsThreeDefinitionsApart) {
  std::vector<run::EpisodeRecord> records;
  for (int i = 0; i < 20; ++i) records.push_back(TimedEpisode(100, {40, 61, 61}));
  for (int i = 0; i < 20; ++i) records.push_back(TimedEpisode(100, {40, 12, 0}));
  for (int i = 0; i < 10; ++i) records.push_back(TimedEpisode(100, {98, 3, 3}));
  for (int i = 0; i < 10; ++i) records.push_back(TimedEpisode(100, {}));
  const auto described = DescribeSuccessOverTime(records, "test", 100);
  ASSERT_TRUE(described && described->definitions);
  EXPECT_EQ(described->definitions->at_any_time.n_success, 50);
  EXPECT_EQ(described->definitions->at_end.n_success, 30);
  EXPECT_EQ(described->definitions->held.n_success, 40);
  EXPECT_TRUE(described->definitions->disagree());
  EXPECT_NEAR(described->throughput.per_step, 50.0 / 6000.0, 1e-15);
  EXPECT_NEAR(ToJson(*described, 10.0)["per_hour"]["rate"], 300.0, 1e-9);
  EXPECT_NEAR(described->restricted_mean.mean, (40 * 40 + 10 * 98 + 10 * 100) / 60.0, 1e-9);
}

TEST(SuccessOverTime, AgreesWhenSuccessLasts) {
  std::vector<run::EpisodeRecord> records(30, TimedEpisode(100, {40, 61, 61}));
  records.push_back(TimedEpisode(100, {}));
  EXPECT_FALSE(DescribeSuccessOverTime(records, "test", 100)->definitions->disagree());
}

TEST(SuccessOverTime, HasOneDefinitionIfEpisodesEndWithSuccess) {
  const std::vector<run::EpisodeRecord> records = {TimedEpisode(40, {40, 1, 1}),
                                                   TimedEpisode(100, {})};
  const auto described = DescribeSuccessOverTime(records, "test", 100);
  ASSERT_TRUE(described);
  EXPECT_FALSE(described->definitions);
  EXPECT_EQ(described->horizon, 100);
}

// Else a run whose env ends failures early would look faster.
TEST(SuccessOverTime, CountsFailuresUpToAGivenHorizon) {
  const std::vector<run::EpisodeRecord> records = {TimedEpisode(40, {40, 1, 1}),
                                                   TimedEpisode(20, {})};
  EXPECT_EQ(LongestEpisode(records, "test"), 40);
  EXPECT_NEAR(DescribeSuccessOverTime(records, "test", 40)->restricted_mean.mean, 40.0, 1e-9);
  EXPECT_NEAR(DescribeSuccessOverTime(records, "test", 100)->restricted_mean.mean, 70.0, 1e-9);
}

TEST(SuccessOverTime, IsUnknownWithoutStepsOrSuccesses) {
  std::vector<run::EpisodeRecord> records = {TimedEpisode(100, {})};
  EXPECT_FALSE(DescribeSuccessOverTime(records, "test", 100));
  records[0].success = true;  // a row of an older version
  EXPECT_FALSE(DescribeSuccessOverTime(records, "test", 100));
}

// The interval of a ratio, by hand: successes 1, 1, 0 in 10, 20 and 30 steps.
TEST(Throughput, HasTheIntervalOfARatio) {
  const std::vector<run::EpisodeRecord> records = {
      TimedEpisode(10, {10, 1, 1}), TimedEpisode(20, {20, 1, 1}), TimedEpisode(30, {})};
  const Throughput found = SuccessesPerStep(records, "test");
  EXPECT_NEAR(found.per_step, 2.0 / 60.0, 1e-15);
  // residuals 2/3, 1/3, -1: variance 7/9 with n - 1; t(2) = 4.302653; mean 20 steps
  EXPECT_NEAR(found.high - found.per_step, 4.302653 * std::sqrt(7.0 / 9.0 / 3.0) / 20.0, 1e-7);
  EXPECT_EQ(found.low, 0.0);
}

}  // namespace
}  // namespace dp_bench::compare
