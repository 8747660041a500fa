#include "compare/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/compare/run_folders.h"
#include "harness/compare/small_suite.h"
#include "report/compare_answers.h"

namespace dp_bench::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// "best" is told from the others; "middle" has fewer seeds than "low".
SuiteTable ThreePolicies() {
  SuiteTable table = {.name = "three", .policies = {"low", "best", "middle"}, .tasks = {{"t", ""}}};
  table.cells = {Cell("low", "t", Times(10, "0001")), Cell("best", "t", Times(40, "1")),
                 Cell("middle", "t", Times(7, "0010") + "00")};
  return table;
}

TEST(AllocateTest, GivesSeedsToThoseThatAreNotToldApartAndFirstToTheOneWithFewer) {
  const SuiteTable table = ThreePolicies();
  const std::vector<PolicyBudget> budgets = Allocate(table, RankingOf(table), 14);
  ASSERT_EQ(budgets.size(), 2U);
  EXPECT_EQ(budgets[0].policy, "low");
  EXPECT_EQ(budgets[0].n_more, 2);
  EXPECT_EQ(budgets[1].policy, "middle");
  EXPECT_EQ(budgets[1].n_more, 12);  // 42 seeds each
  EXPECT_THAT(budgets[1].rivals, ElementsAre("low"));
}

// "close" and "low" are nearly told apart; "low" and "middle" look the same.
TEST(AllocateTest, ThePairThatIsNearlyToldApartComesFirst) {
  SuiteTable table = ThreePolicies();
  table.policies[1] = "close";
  table.cells[1] = Cell("close", "t", Times(6, "0101") + Times(4, "0001"));
  table.cells[2] = Cell("middle", "t", Times(10, "0010"));
  const SuiteRanking ranking = RankingOf(table);
  ASSERT_EQ(ranking.PlaceOf("close")->letters, ranking.PlaceOf("low")->letters);
  const std::vector<PolicyBudget> budgets = Allocate(table, ranking, 8);
  ASSERT_EQ(budgets.size(), 2U);
  EXPECT_EQ(budgets[0].policy, "low");
  EXPECT_EQ(budgets[1].policy, "close");
  EXPECT_EQ(budgets[0].n_more, 4);
}

TEST(AllocateTest, CountsTheEpisodesOfAllTasksAndTrainings) {
  SuiteTable table = SmallTable();
  table.policies = {"weak", "strong"};
  table.cells = {Cell("weak", "reach", "10"),  Cell("weak", "push", "10"),
                 Cell("weak", "lift", "10"),   Cell("strong", "reach", "11"),
                 Cell("strong", "push", "10"), Cell("strong", "lift", "10")};
  const std::vector<PolicyBudget> budgets = Allocate(table, RankingOf(table), 11);
  ASSERT_EQ(budgets.size(), 2U);
  EXPECT_EQ(budgets[0].n_more, 2);
  EXPECT_EQ(budgets[1].n_more, 1);
  EXPECT_EQ(budgets[0].n_episodes() + budgets[1].n_episodes(), 9);
  const nlohmann::json json = ToJson(table, budgets);
  EXPECT_EQ(json["n_episodes"], 9);
  EXPECT_EQ(json["policies"][0]["cells"][2]["next_seed"], 100002);
  EXPECT_EQ(json["policies"][0]["cells"][2]["n_test"], 4);
  EXPECT_THAT(report::AllocationText(json, table, RankingOf(table)),
              HasSubstr("dp_bench eval --resume cells/weak/reach env_runner.n_test=4\n"));
}

TEST(AllocateTest, HasNothingToDoIfAllAreToldApart) {
  SuiteTable table = ThreePolicies();
  table.cells.pop_back();
  table.policies.pop_back();
  const SuiteRanking ranking = RankingOf(table);
  const std::vector<PolicyBudget> budgets = Allocate(table, ranking, 1000);
  EXPECT_TRUE(budgets.empty());
  EXPECT_THAT(report::AllocationText(ToJson(table, budgets), table, ranking),
              HasSubstr("all policies are told apart"));
}

// A pair with "middle" stays open, but it lacks a task and so has no letters.
TEST(AllocateTest, APolicyThatLacksCellsDoesNotCount) {
  SuiteTable table = ThreePolicies();
  table.tasks.push_back({"u", ""});
  table.cells.push_back(Cell("low", "u", Times(10, "0001")));
  table.cells.push_back(Cell("best", "u", Times(40, "1")));
  table.missing = {{"middle", "u", 42}};
  const SuiteRanking ranking = RankingOf(table);
  const std::vector<PolicyBudget> budgets = Allocate(table, ranking, 1000);
  EXPECT_TRUE(budgets.empty());
  EXPECT_THAT(report::AllocationText(ToJson(table, budgets), table, ranking),
              HasSubstr("all policies are told apart"));
}

TEST(AllocateTest, SaysWhenTheBudgetIsTooSmall) {
  const SuiteTable table = ThreePolicies();
  EXPECT_THAT(
      report::AllocationText(ToJson(table, std::vector<PolicyBudget>{}), table, RankingOf(table)),
      HasSubstr("too few episodes for one more seed"));
}

TEST(AllocateTest, TakesRunsOfOneTask) {
  std::vector<run::RunFolder> runs(2);
  runs[0] = {.path = "runs/a", .episodes = SmallEpisodes("sfsf")};
  runs[1] = {.path = "b.csv", .episodes = SmallEpisodes("sfff")};
  runs[1].seed_origin = "a table";
  const SuiteTable table = TableOf(runs);
  const std::vector<PolicyBudget> budgets = Allocate(table, RankingOf(table), 6);
  ASSERT_EQ(budgets.size(), 2U);
  EXPECT_EQ(budgets[0].n_more, 3);
  const std::string text = report::AllocationText(ToJson(table, budgets), table, RankingOf(table));
  EXPECT_THAT(text, HasSubstr("dp_bench eval --resume runs/a env_runner.n_test=7\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("--resume b.csv")));
}

}  // namespace
}  // namespace dp_bench::compare
