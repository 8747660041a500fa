#include "compare/run_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/compare/run_folders.h"
#include "report/comparison_report.h"
#include "run/foreign_result.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class CompareRunsTest : public testing::Test {
 protected:
  // One folder per run: its outcomes and its first seed.
  RunComparison Compare(const std::vector<std::pair<std::string, std::uint64_t>>& runs,
                        const CompareOptions& options = {}) {
    std::vector<std::filesystem::path> folders;
    for (const auto& [outcomes, first_seed] : runs) {
      folders.push_back(scratch_.path() / std::string(1, static_cast<char>('p' + folders.size())));
      WriteSmallRun(folders.back(), outcomes, first_seed);
    }
    return CompareRuns(ReadRuns(folders), options);
  }

  ScratchFolder scratch_;
};

TEST_F(CompareRunsTest, PutsTwoRunsSideBySide) {
  const RunComparison comparison = Compare({{"ssssffffff", 1}, {"fsssssssff", 1}});
  EXPECT_EQ(comparison.runs[1].success_rate.n_success, 7);
  ASSERT_EQ(comparison.candidates.size(), 1U);
  const CandidateComparison& b = comparison.candidates[0];
  EXPECT_DOUBLE_EQ(b.success_rate.difference, 0.3);
  EXPECT_EQ(b.outcomes.counts.only_a, 1);
  EXPECT_EQ(b.outcomes.counts.only_b, 4);
  EXPECT_DOUBLE_EQ(b.p_exact, 2.0 * (1.0 + 5.0) / 32.0);
  EXPECT_DOUBLE_EQ(b.p_holm, b.p_exact);
  EXPECT_DOUBLE_EQ(b.score.mean, 0.15);
  EXPECT_DOUBLE_EQ(b.discordant_rate, 0.5);
  EXPECT_TRUE(comparison.notes.empty());

  const std::string text = report::ComparisonText(comparison);
  EXPECT_THAT(text, HasSubstr("B against A, 10 shared seeds"));
  EXPECT_THAT(text, HasSubstr("both succeed 3, only A 1, only B 4, neither 2"));
  EXPECT_THAT(text, HasSubstr("success rate  +0.300"));
  EXPECT_THAT(text, HasSubstr("p = 0.375 (exact, two-sided)\n"));
  EXPECT_THAT(text, HasSubstr("only A succeeds  seed 1  " +
                              (scratch_.path() / "p/media/test_1.mp4").string() + "  " +
                              (scratch_.path() / "q/media/test_1.mp4").string()));
  EXPECT_THAT(text, HasSubstr("only B succeeds  seed 5  no video  no video"));
  EXPECT_THAT(text, Not(HasSubstr("Holm")));
}

TEST_F(CompareRunsTest, ListsTwentySeedsOfAKindAndCountsTheRest) {
  const RunComparison comparison = Compare({{std::string(23, 'f'), 1}, {std::string(44, 's'), 1}});
  const std::string text = report::ComparisonText(comparison);
  EXPECT_THAT(text, HasSubstr("only B succeeds  seed 20  "));
  EXPECT_THAT(text, Not(HasSubstr("seed 21")));
  EXPECT_THAT(text, HasSubstr("only B succeeds  3 more seeds, all of them with --json\n"));
  EXPECT_THAT(text, HasSubstr("A did not run: 24, 25, "));
  EXPECT_THAT(text, HasSubstr("42, 43 and 1 more\n"));
  EXPECT_EQ(report::ToJson(comparison)["comparisons"][0]["discordant"].size(), 23U);
}

TEST_F(CompareRunsTest, CorrectsForSeveralCandidates) {
  const RunComparison comparison =
      Compare({{"ffffffffff", 1}, {"ssssssssss", 1}, {"ssssssffff", 1}});
  EXPECT_DOUBLE_EQ(comparison.candidates[0].p_exact, 2.0 / 1024.0);
  EXPECT_DOUBLE_EQ(comparison.candidates[0].p_holm, 4.0 / 1024.0);
  EXPECT_DOUBLE_EQ(comparison.candidates[1].p_holm, 2.0 / 64.0);
  EXPECT_THAT(report::ComparisonText(comparison), HasSubstr("0.0312 with Holm's correction for 2"));
  EXPECT_THAT(comparison.notes, ElementsAre(HasSubstr("B, the best of 3 runs, looks better")));
  EXPECT_EQ(report::ToJson(comparison)["correction"], "holm");
}

TEST(UnpairedComparison, SaysWhyAndUsesTheTestsForIndependentRuns) {
  std::vector<run::RunFolder> runs(2);
  runs[0] = {.path = "ours", .episodes = SmallEpisodes("sssssssfff")};
  runs[1] = {.path = "theirs", .episodes = SmallEpisodes("ssffffffffff", 0)};
  runs[1].seed_origin = "LeRobot";
  const RunComparison comparison = CompareRuns(runs, {});
  const CandidateComparison& b = comparison.candidates[0];
  EXPECT_EQ(b.why_unpaired, "the seeds of ours are from dp_bench, those of theirs from LeRobot");
  EXPECT_TRUE(b.outcomes.pairs.empty());
  EXPECT_NEAR(b.p_exact, 0.027421494913754976, 1e-12);  // scipy.stats.fisher_exact
  EXPECT_NEAR(b.success_rate.low, -0.7597679858244781, 1e-12);
  EXPECT_NEAR(b.score.mean, 7.0 / 12.0 - 0.85, 1e-12);

  const std::string text = report::ComparisonText(comparison);
  EXPECT_THAT(text, HasSubstr("B against A, unpaired: the seeds of ours are from dp_bench"));
  EXPECT_THAT(text, HasSubstr("(Newcombe, unpaired)"));
  EXPECT_THAT(text, HasSubstr("Fisher        p = 0.0274 (exact, two-sided)"));
  EXPECT_THAT(text, HasSubstr("episodes of each run"));
  EXPECT_THAT(text, Not(HasSubstr("seeds         both succeed")));
  const nlohmann::json json = report::ToJson(comparison)["comparisons"][0];
  EXPECT_EQ(json["why_unpaired"], b.why_unpaired);
  EXPECT_EQ(json["fisher"]["p_exact"], b.p_exact);
  EXPECT_EQ(json["score"]["method"], "welch");

  AssumeSameSeeds(&runs);
  for (run::EpisodeRecord& record : runs[1].episodes) record.seed += 100000;
  EXPECT_EQ(CompareRuns(runs, {}).candidates[0].outcomes.counts.n(), 10);
}

TEST(UnpairedComparison, OneUnpairedRunOfThreeLeavesTheOthersPaired) {
  std::vector<run::RunFolder> runs(3);
  for (run::RunFolder& run : runs) run.episodes = SmallEpisodes("ssssffff");
  runs[2].has_seeds = false;
  const RunComparison comparison = CompareRuns(runs, {});
  EXPECT_TRUE(comparison.candidates[0].is_paired());
  EXPECT_FALSE(comparison.candidates[1].is_paired());
}

TEST(UnpairedComparison, NamesTasksThatDiffer) {
  run::RunFolder a;
  run::RunFolder b;
  a.tasks = {"lift", "push"};
  b.tasks = {"push"};
  ASSERT_EQ(FindTaskMismatches(a, b).size(), 1U);
  EXPECT_EQ(FindTaskMismatches(a, b)[0].a, "lift, push");
  EXPECT_TRUE(FindTaskMismatches(a, {}).empty());
}

// The second task of one is the first of the other, under the same seeds.
TEST(UnpairedComparison, SeedsOfOtherListsOfTasksAreNotPaired) {
  const auto read = [](const char* name, const char* rows) {
    return run::ParseForeignResult(rows, name);
  };
  const run::RunFolder both = read("both.csv", "seed,success,task\n0,0,lift\n0,1,push\n1,1,push");
  const run::RunFolder one = read("one.csv", "seed,success,task\n0,1,push\n1,1,push");
  const run::RunFolder none = read("none.csv", "seed,success\n0,1\n1,1");
  EXPECT_EQ(WhyUnpaired(both, one),
            "both.csv has the tasks lift, push, one.csv has the tasks push");
  EXPECT_EQ(WhyUnpaired(none, both),
            "none.csv has no names of tasks, both.csv has the tasks lift, push");
  EXPECT_EQ(WhyUnpaired(both, both), "");
  EXPECT_EQ(WhyUnpaired(one, none), "");
  EXPECT_FALSE(CompareRuns({both, none}, {}).candidates[0].is_paired());
}

TEST_F(CompareRunsTest, NotesATrainingThatSawTheSeeds) {
  std::vector<run::RunFolder> folders(2);
  for (run::RunFolder& folder : folders) folder.episodes = SmallEpisodes("sf");
  folders[1].seeds = {.report = {.first = 100000, .n = 2}, .selection = {.first = 100001, .n = 2}};
  EXPECT_THAT(CompareRuns(folders, {}).notes,
              testing::Contains(HasSubstr("B's training was evaluated on 1 of its test seeds")));
  folders[1].seeds = {.report = {.first = 100000, .n = 2},
                      .demonstrations = {{.first = 100001, .n = 9}}};
  EXPECT_THAT(CompareRuns(folders, {}).notes,
              testing::Contains(HasSubstr("B was trained on episodes with 1 of its test seeds")));
}

TEST_F(CompareRunsTest, SaysInHowManyEpisodesThePolicysServerWasTheReason) {
  std::vector<run::RunFolder> folders(2);
  for (run::RunFolder& folder : folders) folder.episodes = SmallEpisodes("sfff");
  folders[1].episodes[2].failure_reason = "plan at step 0: policy_timeout: no answer";
  folders[1].episodes[3].failure_reason = "step 3: the env broke";
  EXPECT_THAT(CompareRuns(folders, {}).notes,
              testing::Contains("2 of B's episodes broke; they count as not successful. Its "
                                "policy's server was the reason for 1; 1 of the other 3 were "
                                "successful"));
}

TEST_F(CompareRunsTest, GivesLettersToThreeRunsOnAllTheirPairs) {
  const RunComparison comparison = Compare({{std::string(20, 'f'), 1},
                                            {std::string(14, 's') + std::string(6, 'f'), 1},
                                            {std::string(20, 's'), 1}});
  EXPECT_EQ(comparison.pairs.size(), 3U);
  EXPECT_EQ(comparison.pairs[2].evidence.log_a_better,  // B and C, 6 seeds
            EvidenceOf(std::vector<double>(6, -1.0)).log_a_better);
  EXPECT_FALSE(comparison.pairs[2].is_different);
  EXPECT_EQ(comparison.runs[0].letters, "b");
  EXPECT_EQ(comparison.runs[1].rank, (RankInterval{1, 2}));
  EXPECT_EQ(comparison.runs[2].letters, "a");  // the best
  const nlohmann::json json = report::ToJson(comparison);
  EXPECT_EQ(json["runs"][1]["letters"], "a");
  EXPECT_EQ(json["runs"][0]["rank"]["best"], 3);
  EXPECT_EQ(json["all_pairs"][2]["b"], "C");
  EXPECT_THAT(report::ComparisonText(comparison), HasSubstr("  letters  ranks\n"));
}

TEST_F(CompareRunsTest, OfTwoRunsThereAreNoLettersAndNoBest) {
  const RunComparison comparison = Compare({{"ssf", 1}, {"sfs", 1}});
  EXPECT_TRUE(comparison.notes.empty());
  const nlohmann::json json = report::ToJson(comparison);
  EXPECT_TRUE(json["runs"][0]["letters"].is_null());
  EXPECT_TRUE(json["all_pairs"].empty());
}

TEST_F(CompareRunsTest, GivesTheExactIntervalOnRequest) {
  const RunComparison comparison =
      Compare({{"ssss", 1}, {"ssff", 1}}, {.rate_method = RateMethod::kClopperPearson});
  EXPECT_NEAR(comparison.runs[0].success_rate.low, std::pow(0.025, 0.25), 1e-12);
  EXPECT_EQ(report::ToJson(comparison)["runs"][0]["success_rate"]["method"], "clopper_pearson");
  EXPECT_THAT(report::ComparisonText(comparison), HasSubstr("intervals: Clopper-Pearson"));
}

TEST_F(CompareRunsTest, ListsWhatOneRunLacks) {
  const RunComparison comparison = Compare({{"ssss", 1}, {"sxss", 3}});
  const CandidateComparison& b = comparison.candidates[0];
  EXPECT_EQ(b.outcomes.counts.n(), 2);
  EXPECT_TRUE(b.mismatches.empty());
  const std::string text = report::ComparisonText(comparison);
  EXPECT_THAT(text, HasSubstr("B against A, 2 shared seeds"));
  EXPECT_THAT(text, HasSubstr("B did not run: 1, 2\n"));
  EXPECT_THAT(text, HasSubstr("A did not run: 5, 6\n"));
  EXPECT_THAT(text, HasSubstr("note: 1 of B's episodes broke"));
}

TEST_F(CompareRunsTest, WritesTheSameAsJson) {
  const nlohmann::json json = report::ToJson(Compare({{"ssf", 1}, {"sfs", 1}}));
  EXPECT_EQ(json["runs"][0]["label"], "A");
  EXPECT_EQ(json["runs"][0]["n_success"], 2);
  EXPECT_EQ(json["runs"][0]["title"], "unet_hybrid on pusht, push");
  const nlohmann::json& b = json["comparisons"][0];
  EXPECT_EQ(b["b"], "B");
  EXPECT_EQ(b["both_succeed"], 1);
  EXPECT_EQ(b["discordant"].size(), 2U);
  EXPECT_EQ(b["discordant"][0]["seed"], 2);
  EXPECT_EQ(b["discordant"][0]["video_a"], "media/test_2.mp4");
  EXPECT_EQ(b["mcnemar"]["p_exact"], 1.0);
  EXPECT_GT(b["power"]["n_pairs"].get<int>(), 1000);
}

TEST_F(CompareRunsTest, ASinglePairHasNoSpread) {
  const RunComparison comparison = Compare({{"s", 1}, {"f", 1}});
  EXPECT_THAT(report::ComparisonText(comparison), HasSubstr("-inf to +inf"));
  EXPECT_TRUE(
      nlohmann::json::parse(report::ToJson(comparison).dump())["comparisons"][0]["score"]["low"]
          .is_null());
}

TEST_F(CompareRunsTest, RefusesRunsThatShareNoSeed) {
  EXPECT_THAT(MessageOf(ErrorCode::kData,
                        [&] {
                          Compare({{"ss", 1}, {"ss", 3}});
                        }),
              HasSubstr("share no test seed"));
}

TEST_F(CompareRunsTest, RefusesAFolderWithoutTestEpisodes) {
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ReadRuns({scratch_.path()}); }),
              HasSubstr("has no test episodes"));
}

TEST_F(CompareRunsTest, RefusesASeedThatOccursTwiceAndNamesTheFile) {
  WriteSmallRun(scratch_.path() / "twice", "s");
  std::ifstream once(scratch_.path() / "twice/episodes.jsonl");
  std::string row;
  std::getline(once, row);
  std::ofstream(scratch_.path() / "twice/episodes.jsonl") << row << "\n" << row << "\n";
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ReadRuns({scratch_.path() / "twice"}); }),
              testing::AllOf(HasSubstr("two test episodes of seed 100000"),
                             HasSubstr("twice/episodes.jsonl")));
}

}  // namespace
}  // namespace dp_bench::compare
