#include "compare/suite_ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dp_bench/random.h"
#include "harness/compare/small_suite.h"

namespace dp_bench::compare {
namespace {

using testing::IsNull;

std::string LettersIn(const SuiteRanking& ranking, const std::string& policy,
                      const std::string& task = "") {
  const SuitePlace* place = ranking.PlaceOf(policy, task);
  return place == nullptr ? "none" : place->letters;
}

TEST(SuiteRankingTest, ThePoliciesThatDifferHaveDifferentLettersAndRanks) {
  const SuiteRanking ranking = RankingOf(SmallTable());
  EXPECT_EQ(LettersIn(ranking, "strong"), "a");
  EXPECT_EQ(LettersIn(ranking, "weak"), "b");
  EXPECT_EQ(ranking.PlaceOf("strong")->rank, (RankInterval{1, 1}));
  EXPECT_EQ(ranking.PlaceOf("weak")->rank, (RankInterval{2, 2}));
}

TEST(SuiteRankingTest, EachTaskHasItsOwnLetters) {
  const SuiteRanking ranking = RankingOf(SmallTable());
  EXPECT_EQ(LettersIn(ranking, "strong", "reach"), LettersIn(ranking, "other", "reach"));
  EXPECT_EQ(LettersIn(ranking, "strong", "lift"), "a");
  EXPECT_EQ(LettersIn(ranking, "other", "lift"), "none");
}

TEST(SuiteRankingTest, APolicyThatLacksCellsHasNoPlaceOverAllTasks) {
  EXPECT_THAT(RankingOf(SmallTable()).PlaceOf("other"), IsNull());
  SuiteTable table = SmallTable();
  table.cells.erase(table.cells.begin());
  EXPECT_THAT(RankingOf(table).PlaceOf("strong"), IsNull());  // there is no other policy
}

// Those that failed may be the ones that would have been bad.
TEST(SuiteRankingTest, APolicyThatLacksATrainingSeedHasNoPlace) {
  SuiteTable table = SmallTable();
  table.policies = {"weak", "strong", "other"};
  table.tasks = {{"reach", ""}, {"push", ""}};
  table.seeds = {42, 43};
  table.cells.clear();
  for (const char* const task : {"reach", "push"}) {
    table.cells.push_back(Cell("weak", task, "0000000000", 42));
    table.cells.push_back(Cell("weak", task, "0000000000", 43));
    table.cells.push_back(Cell("strong", task, "1111111111", 42));
    table.cells.push_back(Cell("other", task, "1111111111", 42));  // it is not trained
  }
  EXPECT_EQ(LettersIn(RankingOf(table), "strong"), "a");
  table.missing = {{"strong", "reach", 43}, {"strong", "push", 43}};
  const SuiteRanking ranking = RankingOf(table);
  for (const char* const task : {"", "reach", "push"}) {
    EXPECT_THAT(ranking.PlaceOf("strong", task), IsNull()) << task;
    EXPECT_EQ(LettersIn(ranking, "other", task), "a") << task;
    EXPECT_EQ(ranking.PlaceOf("weak", task)->rank, (RankInterval{2, 2})) << task;
  }
}

TEST(SuiteRankingTest, ATrainingSeedThatIsMissingCountsOnItsTask) {
  SuiteTable table = SmallTable();
  table.missing = {{"strong", "push", 43}};
  const SuiteRanking ranking = RankingOf(table);
  EXPECT_THAT(ranking.PlaceOf("strong"), IsNull());
  EXPECT_THAT(ranking.PlaceOf("strong", "push"), IsNull());
  EXPECT_EQ(LettersIn(ranking, "strong", "lift"), "a");
}

TEST(SuiteRankingTest, CellsOfDifferentEnvVersionsAreNotCompared) {
  SuiteTable table = SmallTable();
  for (SuiteCell& cell : table.cells) cell.env_version = cell.policy == "weak" ? "" : "2";
  EXPECT_EQ(LettersIn(RankingOf(table), "strong"), "a");  // an unknown one may be the same
  table.cells[0].env_version = "1";                       // weak on reach
  const SuiteRanking ranking = RankingOf(table);
  for (const std::string& policy : table.policies) {
    EXPECT_THAT(ranking.PlaceOf(policy), IsNull()) << policy;
    EXPECT_THAT(ranking.PlaceOf(policy, "reach"), IsNull()) << policy;
  }
  EXPECT_EQ(LettersIn(ranking, "strong", "lift"), "a");
  ASSERT_EQ(ranking.pairs.size(), 1U);  // weak and strong, on push and lift
  EXPECT_DOUBLE_EQ(ranking.pairs[0].difference, (0.0 + 0.1 - 0.5 - 1.0) / 2.0);
  EXPECT_THAT(VersionFaults(table),
              testing::ElementsAre(testing::HasSubstr("reach: expected cells of one version of the "
                                                      "env's plugin, found 1 (weak) and 2 (other, "
                                                      "strong); policies are not compared there")));
}

TEST(SuiteRankingTest, PairsAreOfTheSameTaskAndTestSeedWithAllTrainings) {
  SuiteTable table = SmallTable();
  SuiteCell later = Cell("strong", "reach", "111");
  later.first_seed = 100002;  // shares 100002 to 100004 with the other policy
  table.cells = {Cell("weak", "reach", "11100"), later, Cell("strong", "push", "11"),
                 Cell("strong", "reach", "00000", 43)};
  const std::vector<SuitePair> pairs = RankingOf(table).pairs;
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].n_seeds, 3);
  EXPECT_EQ(pairs[0].counts.both_succeed, 1);
  EXPECT_EQ(pairs[0].counts.only_a, 1);
  EXPECT_EQ(pairs[0].counts.only_b, 2);
  EXPECT_EQ(pairs[0].counts.neither, 2);
  EXPECT_DOUBLE_EQ(pairs[0].difference, (0.5 - 0.5 - 0.5) / 3.0);
}

// The row of a policy that is not trained has the first training seed of the list.
TEST(SuiteRankingTest, APolicyThatIsNotTrainedIsComparedWithAllTrainings) {
  SuiteTable table = SmallTable();
  for (const std::uint64_t of_untrained : {42U, 43U}) {
    table.cells = {Cell("weak", "reach", "1100", of_untrained), Cell("strong", "reach", "1111", 42),
                   Cell("strong", "reach", "0000", 43)};
    const std::vector<SuitePair> pairs = RankingOf(table).pairs;
    ASSERT_EQ(pairs.size(), 1U);
    EXPECT_DOUBLE_EQ(pairs[0].difference, 0.0);
    EXPECT_FALSE(pairs[0].ranked.is_different);
  }
}

// The rare failures of one training against the mean of three would be a bet that grows by itself.
TEST(SuiteRankingTest, EvidenceIsOfAsManyTrainingsOfEach) {
  SuiteTable table = SmallTable();
  table.cells = {Cell("weak", "reach", "100", 42), Cell("strong", "reach", "011", 42),
                 Cell("strong", "reach", "101", 43), Cell("strong", "reach", "110", 44)};
  const SuitePair pair = RankingOf(table).pairs.at(0);
  EXPECT_DOUBLE_EQ(pair.difference, 1.0 / 3.0 - 2.0 / 3.0);
  // test seed 100000 is compared with the training 100000 % 3 = 1, the next with the next
  EXPECT_EQ(pair.ranked.evidence.log_a_better,
            EvidenceOf(std::vector<double>{0.0, -1.0, -1.0}).log_a_better);
}

TEST(SuiteRankingTest, MoreTrainingSeedsAreNotMoreEvidenceAboutTestSeeds) {
  SuiteTable table = SmallTable();
  table.cells.clear();
  for (const std::uint64_t seed : {42U, 43U, 44U}) {
    table.cells.push_back(Cell("weak", "reach", "00000", seed));
    table.cells.push_back(Cell("strong", "reach", "11111", seed));
  }
  const std::vector<SuitePair> pairs = RankingOf(table).pairs;
  ASSERT_EQ(pairs.size(), 1U);
  EXPECT_EQ(pairs[0].counts.only_b, 3 * 3 * 5);
  EXPECT_EQ(pairs[0].ranked.evidence.log_b_better,
            EvidenceOf(std::vector<double>(5, -1.0)).log_b_better);
}

TEST(SuiteRankingTest, TasksOfASeedAreOneDifference) {
  SuiteTable table = SmallTable();
  table.tasks = {{"reach", ""}, {"push", ""}};
  table.cells = {Cell("weak", "reach", "1100"), Cell("weak", "push", "0000"),
                 Cell("strong", "reach", "1111"), Cell("strong", "push", "101011")};
  const SuiteRanking ranking = RankingOf(table);
  EXPECT_EQ(ranking.pairs[0].n_seeds, 4);
  EXPECT_EQ(ranking.pairs[0].ranked.evidence.log_b_better,
            EvidenceOf(std::vector<double>{-0.5, 0.0, -1.0, -0.5}).log_b_better);
}

TEST(SuiteRankingTest, IsWrittenAsJson) {
  const SuiteTable table = SmallTable();
  const nlohmann::json json = ToJson(table, RankingOf(table));
  EXPECT_EQ(json["pairs"][0]["a"], "weak");
  EXPECT_EQ(json["pairs"][0]["b"], "strong");
  EXPECT_EQ(json["pairs"][0]["is_different"], true);
  EXPECT_EQ(json["places"][1]["policy"], "strong");
  EXPECT_TRUE(json["places"][1]["task"].is_null());
  EXPECT_EQ(json["places"][1]["rank"]["worst"], 1);
}

TEST(SuiteRankingTest, TwentyPoliciesOnFiftyTasksTakeLessThanTwoSeconds) {
  RandomStream random(1, StreamId::kEnvNoise);
  SuiteTable table = {.name = "large", .seeds = {42}};
  for (int task = 0; task < 50; ++task) table.tasks.push_back({"task" + std::to_string(task), ""});
  for (int policy = 0; policy < 20; ++policy) {
    table.policies.push_back("policy" + std::to_string(policy));
    for (const SuiteTaskName& task : table.tasks) {
      std::string successes;
      for (int seed = 0; seed < 100; ++seed) {
        successes += random.UniformDouble() < 0.4 + 0.02 * policy ? '1' : '0';
      }
      table.cells.push_back(Cell(table.policies.back(), task.name, successes));
    }
  }
  const std::clock_t start = std::clock();  // of the processor: others may use it too
  const SuiteRanking ranking = RankingOf(table);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  RecordProperty("seconds", std::to_string(seconds));
  EXPECT_LT(seconds, 2.0);
  EXPECT_EQ(ranking.places.size(), 20U * 51U);
  EXPECT_EQ(ranking.PlaceOf("policy0")->rank.worst, 20);
}

}  // namespace
}  // namespace dp_bench::compare
