// A table of policies and tasks: rates, means over groups, pairs and letters.
#include "compare/suite_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "harness/compare/run_folders.h"
#include "harness/compare/small_suite.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::compare {
namespace {

using testing::HasSubstr;

TEST(SuiteTableTest, AMeanWeighsEveryTaskAlike) {
  const std::vector<SuiteMean> means = MeansOf(SmallTable());
  ASSERT_EQ(means.size(), 8U);  // 2 groups and all tasks of two policies, 1 group and all of one
  EXPECT_EQ(means[0].group, "easy");
  EXPECT_DOUBLE_EQ(means[0].mean, 0.2);
  EXPECT_EQ(means[1].group, "hard");
  EXPECT_DOUBLE_EQ(means[1].mean, 0.1);
  EXPECT_FALSE(means[2].group);
  EXPECT_NEAR(means[2].mean, (0.4 + 0.0 + 0.1) / 3.0, 1e-12);
  EXPECT_EQ(means[2].n_tasks, 3);
}

TEST(SuiteTableTest, AMeanSaysHowManyTasksAreMissing) {
  const SuiteMean all = MeansOf(SmallTable()).back();
  EXPECT_EQ(all.policy, "other");
  EXPECT_EQ(all.n_tasks, 1);
  EXPECT_EQ(all.n_wanted, 3);
  EXPECT_DOUBLE_EQ(all.mean, 0.5);
}

TEST(SuiteTableTest, AMeanSaysWhetherCellsAreMissing) {
  SuiteTable table = SmallTable();
  EXPECT_TRUE(MeansOf(table).back().is_part);
  EXPECT_FALSE(MeansOf(table)[2].is_part);
  table.missing = {{"weak", "lift", 43}};
  EXPECT_FALSE(MeansOf(table)[0].is_part);
  EXPECT_TRUE(MeansOf(table)[1].is_part);
  EXPECT_TRUE(MeansOf(table)[2].is_part);
}

// MOVER: the squares of the distances to Wilson's bounds add up.
TEST(SuiteTableTest, TheIntervalOfAMeanIsNarrowerThanThoseOfItsTasks) {
  SuiteTable table = SmallTable();
  table.cells = {Cell("weak", "reach", "1111100000"), Cell("weak", "push", "1111100000")};
  const SuiteMean mean = MeansOf(table).back();
  const RateInterval one = WilsonInterval(5, 10);
  EXPECT_NEAR(mean.low, 0.5 - (0.5 - one.low) / std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(mean.high, 0.5 + (one.high - 0.5) / std::sqrt(2.0), 1e-12);
}

// They share their test seeds, so the interval is not narrower for them.
TEST(SuiteTableTest, TrainingSeedsOfATaskArePooledWithTheIntervalOfTheirTestSeeds) {
  SuiteTable table = SmallTable();
  table.cells = {Cell("weak", "reach", "1100", 42), Cell("weak", "reach", "1111", 43)};
  const std::vector<SuiteRate> rates = RatesOf(table);
  ASSERT_EQ(rates.size(), 1U);
  EXPECT_EQ(rates[0].any_time.n_success, 6);
  EXPECT_EQ(rates[0].any_time.n, 8);
  EXPECT_DOUBLE_EQ(rates[0].any_time.low, WilsonInterval(3, 4).low);
  EXPECT_DOUBLE_EQ(rates[0].any_time.high, WilsonInterval(3, 4).high);
  table.cells.back() = Cell("weak", "reach", "0111", 43);  // 2.5 of 4 test seeds
  const RateInterval half = RatesOf(table)[0].any_time;
  EXPECT_LT(WilsonInterval(2, 4).low, half.low);
  EXPECT_LT(half.low, WilsonInterval(3, 4).low);
  EXPECT_LT(half.high, WilsonInterval(3, 4).high);
}

TEST(SuiteTableTest, ATrainingSeedWithFewTestSeedsMakesTheIntervalNoWider) {
  SuiteTable table = {.policies = {"p"}, .tasks = {{"a", ""}}};
  table.cells = {Cell("p", "a", "11", 42), Cell("p", "a", "1111111111", 43)};
  const double low = RatesOf(table)[0].any_time.low;
  std::swap(table.cells[0], table.cells[1]);
  EXPECT_EQ(RatesOf(table)[0].any_time.low, low);
  EXPECT_EQ(low, WilsonIntervalOf(1.0, 9).low);  // 8 test seeds once and 2 twice: 12 * 12 / 16
}

TEST(SuiteTableTest, TasksWithoutAGroupAreNotAllTasks) {
  SuiteTable table = SmallTable();
  table.tasks[0].group = "";
  const std::vector<SuiteMean> means = MeansOf(table);
  EXPECT_EQ(means[0].group, "");
  EXPECT_DOUBLE_EQ(means[0].mean, 0.4);
}

TEST(SuiteTableTest, IsReadAsItWasWritten) {
  const ScratchFolder scratch;
  SuiteTable table = SmallTable();
  table.cells[0].successes_at_end = "1010000000";
  table.cells[1].n_failed = 2;
  table.cells[2].env_version = "1.2.0";
  table.other_cells = {Cell("weak", "reach", "01")};
  table.missing = {{"other", "push", 42}};
  std::ofstream(scratch.path() / "suite.json") << ToJson(table);
  EXPECT_EQ(ReadSuiteTable(scratch.path() / "suite.json"), table);
}

// Why the file of a table is refused.
std::string RefusalOf(const SuiteTable& table) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / "suite.json") << ToJson(table);
  return MessageOf(ErrorCode::kData, [&] { ReadSuiteTable(scratch.path() / "suite.json"); });
}

TEST(SuiteTableTest, RefusesWhatIsThereTwice) {
  SuiteTable table = SmallTable();
  table.policies.push_back(table.policies.front());
  EXPECT_THAT(RefusalOf(table), HasSubstr("the policy '" + table.policies.front() + "' is there"));
  table = SmallTable();
  table.tasks.push_back(table.tasks.front());
  EXPECT_THAT(RefusalOf(table), HasSubstr("the task '" + table.tasks.front().name + "' is there"));
  table = SmallTable();
  table.cells.push_back(table.cells.front());
  EXPECT_THAT(RefusalOf(table), HasSubstr("with training seed"));
}

TEST(SuiteTableTest, NamesTheCellWhoseOutcomesAreNone) {
  SuiteTable table = SmallTable();
  table.cells = {Cell("weak", "reach", "10x")};
  EXPECT_THAT(RefusalOf(table), HasSubstr("weak on reach"));
  table.cells = {Cell("weak", "reach", "101")};
  table.cells[0].successes_at_end = "10";
  EXPECT_THAT(RefusalOf(table), HasSubstr("one 0 or 1 for each test seed"));
}

TEST(SuiteTableTest, WhereAPolicyGaveNoActionsThereAreBothRates) {
  SuiteTable table = SmallTable();
  table.cells = {Cell("weak", "reach", "1100"), Cell("weak", "push", "1100")};
  table.cells[0].n_failed = table.cells[0].n_policy_faults = 1;
  const std::vector<SuiteRate> rates = RatesOf(table);
  EXPECT_DOUBLE_EQ(rates[0].any_time.rate, 0.5);
  EXPECT_DOUBLE_EQ(rates[0].without_faults.value(), 2.0 / 3.0);
  EXPECT_FALSE(rates[1].without_faults);
  const nlohmann::json cells = ToJson(table).at("cells");
  EXPECT_DOUBLE_EQ(cells[0].at("success_rate"), 0.5);
  EXPECT_DOUBLE_EQ(cells[0].at("success_rate_without_policy_faults"), 2.0 / 3.0);
  EXPECT_FALSE(cells[1].contains("n_policy_faults"));
  EXPECT_FALSE(cells[1].contains("success_rate"));
  table.cells[0].n_policy_faults = 4;  // nothing is left
  EXPECT_FALSE(RatesOf(table)[0].without_faults);
}

TEST(SuiteTableTest, ACellHasTheOutcomesOfItsRunInTheOrderOfTheSeeds) {
  run::RunFolder run;
  run.episodes = SmallEpisodes("sfxs");
  run.episodes[2].failure_reason = "policy_timeout: no answer";
  std::swap(run.episodes[0], run.episodes[3]);
  const SuiteCell cell = OutcomesOf(run);
  EXPECT_EQ(cell.successes, "1001");
  EXPECT_EQ(cell.first_seed, 100000U);
  EXPECT_EQ(cell.n_failed, 1);
  EXPECT_EQ(cell.n_policy_faults, 1);
  EXPECT_DOUBLE_EQ(cell.mean_score, 2.5 / 4.0);
}

TEST(SuiteTableTest, RefusesARunWithoutTestEpisodesOrWithAGap) {
  run::RunFolder run;
  run.path = "runs/mine";
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { OutcomesOf(run); }),
              HasSubstr("'runs/mine' has no test episodes"));
  run.episodes = SmallEpisodes("sss");
  run.episodes.erase(run.episodes.begin() + 1);
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { OutcomesOf(run); }),
              HasSubstr("found 100002 after 100000"));
}

}  // namespace
}  // namespace dp_bench::compare
