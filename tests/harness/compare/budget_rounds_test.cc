#include "compare/budget_rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/compare/run_folders.h"
#include "harness/compare/small_suite.h"
#include "report/suite_page.h"
#include "support/error_of.h"

namespace dp_bench::compare {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// On "reach" the policies are soon told apart, on "push" they do the same.
SuiteTable TwoTasks(int n_of_push) {
  SuiteTable table = {
      .name = "two", .policies = {"weak", "strong"}, .tasks = {{"reach", ""}, {"push", ""}}};
  table.cells = {Cell("weak", "reach", Times(300, "0")), Cell("strong", "reach", Times(300, "1")),
                 Cell("weak", "push", Times(n_of_push, "1")),
                 Cell("strong", "push", Times(n_of_push, "1"))};
  return table;
}

TEST(BudgetRoundsTest, TheFirstRoundGivesEachCellTenSeedsOrItsPartOfTheBudget) {
  SuiteTable table = TwoTasks(10);
  for (SuiteCell& cell : table.cells) cell.successes.clear();
  const BudgetRound round = NextRound(table, 400);
  EXPECT_EQ(round.index, 0);
  EXPECT_THAT(round.n_seeds, Each(10));
  EXPECT_EQ(round.n_episodes, 40);
  EXPECT_FALSE(round.is_over);
  EXPECT_THAT(NextRound(table, 31).n_seeds, Each(7));
}

TEST(BudgetRoundsTest, LaterRoundsGoToTasksOnWhichPoliciesShareALetter) {
  const BudgetRound round = NextRound(TwoTasks(40), 400);
  EXPECT_FALSE(round.is_over);
  // told apart on "reach" after 10 of the 300 seeds that the cells have
  EXPECT_THAT(round.n_seeds, ElementsAre(10, 10, 45, 45));
  EXPECT_EQ(round.n_episodes, 110);
}

TEST(BudgetRoundsTest, FollowFromTheFirstSeedsWhateverACellHasBeyondThem) {
  const SuiteTable more = TwoTasks(40);
  SuiteTable interrupted = more;
  interrupted.cells[0].successes.resize(10);
  interrupted.cells[3].successes += "0000";
  EXPECT_EQ(NextRound(interrupted, 400).n_seeds, NextRound(more, 400).n_seeds);
}

TEST(BudgetRoundsTest, EndWithTheBudget) {
  const BudgetRound round = NextRound(TwoTasks(300), 200);
  EXPECT_TRUE(round.is_over);
  EXPECT_FALSE(round.is_decided);
  EXPECT_EQ(round.n_episodes, 200);
  EXPECT_EQ(round.n_seeds[2] + round.n_seeds[3], 200 - 2 * 10);
  // a larger one continues
  EXPECT_GE(NextRound(TwoTasks(300), 400).n_seeds[2], round.n_seeds[2]);
}

TEST(BudgetRoundsTest, EndOnceAllPoliciesAreToldApartOnEachTask) {
  SuiteTable table = TwoTasks(300);
  table.cells[3].successes = Times(300, "0");
  const BudgetRound round = NextRound(table, 1000);
  EXPECT_TRUE(round.is_over);
  EXPECT_TRUE(round.is_decided);
  EXPECT_LT(round.n_episodes, 80);
}

TEST(BudgetRoundsTest, ATaskWithSeveralEnvVersionsGetsNoMoreAndIsNotDecided) {
  SuiteTable table = TwoTasks(300);
  table.cells[2].env_version = "1";
  table.cells[3].env_version = "2";
  const BudgetRound round = NextRound(table, 1000);
  EXPECT_TRUE(round.is_over);
  EXPECT_FALSE(round.is_decided);
  EXPECT_THAT(round.n_seeds, Each(10));
}

TEST(BudgetRoundsTest, CountTheEpisodesOfAllTrainingSeeds) {
  SuiteTable table = TwoTasks(10);
  table.cells.push_back(Cell("weak", "push", Times(10, "1"), 43));
  table.cells.push_back(Cell("strong", "push", Times(10, "1"), 43));
  const BudgetRound round = NextRound(table, 71);
  EXPECT_EQ(round.index, 1);
  EXPECT_EQ(round.n_seeds[2], round.n_seeds[4]);
  EXPECT_EQ(round.n_seeds[3], round.n_seeds[5]);
  int n = 0;
  for (const int seeds : round.n_seeds) n += seeds;
  EXPECT_EQ(n, round.n_episodes);
  EXPECT_LE(n, 71);
}

TEST(BudgetRoundsTest, RefuseABudgetThatCannotTellAnythingApart) {
  SuiteTable table = TwoTasks(10);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { NextRound(table, 3); }),
              HasSubstr("less than one for each of the 4 cells"));
  table.policies.pop_back();
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { NextRound(table, 100); }),
              HasSubstr("the suite has only one"));
}

TEST(BudgetRoundsTest, TheTableTellsOfTheBudget) {
  SuiteTable table = TwoTasks(300);
  for (SuiteCell& cell : table.cells) cell.successes.resize(50);
  const BudgetRound round = NextRound(table, 200);
  const nlohmann::json json = ToJson(round, table);
  EXPECT_EQ(json["n_budget"], 200);
  EXPECT_EQ(json["n_episodes"], 200);  // what the cells have
  EXPECT_EQ(json["is_over"], false);
  EXPECT_THAT(report::SuiteText(table, {.round = round}),
              HasSubstr("4 evaluations, a budget of 200 test episodes, 200 used in "));
  EXPECT_THAT(report::SuiteText(table, {}), testing::Not(HasSubstr("budget")));
}

}  // namespace
}  // namespace dp_bench::compare
