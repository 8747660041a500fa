// The table that an evaluation prints.
#include "report/evaluation_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace dp_bench::report {
namespace {

run::EpisodeRecord Episode(const std::string& split, std::uint64_t seed, double score,
                           bool success) {
  return {.split = split, .seed = seed, .score = score, .success = success, .n_steps = 300};
}

TEST(ResultTable, ShowsRateIntervalCountsScoreAndFailures) {
  run::RunResult result;
  result.records = {Episode("train", 0, 1.0, true), Episode("test", 100000, 0.5, false),
                    Episode("test", 100001, 1.0, true), Episode("test", 100002, 0.0, false)};
  result.records.back().failure_reason = "joint 7 broke\n  in env plugin 'pusht', during Step";
  result.records.back().n_steps = 12;
  EXPECT_EQ(ResultTable(result),
            "split  success rate  95 % interval    episodes  mean score  failed\n"
            "train       100.0 %  20.7 to 100.0 %       1/1       1.000       0\n"
            "test         33.3 %  6.1 to 79.2 %         1/3       0.500       1\n"
            "failed: test seed 100002 after 12 steps: joint 7 broke\n"
            "      in env plugin 'pusht', during Step\n");
}

TEST(ResultTable, TellsEqualFailuresTogether) {
  run::RunResult result;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    result.records.push_back(Episode("test", seed, 0.0, false));
    result.records.back().failure_reason = "policy_disconnected: refused";
  }
  result.records.back().failure_reason = "joint 7 broke";
  const std::string text = ResultTable(result);
  EXPECT_THAT(text, testing::HasSubstr(
                        "test: 299 episodes ended because the remote policy gave no actions; "
                        "success rate of the others 0.0 %, 0/1\n"
                        "failed: test seed 0 and 298 more, the first after 300 steps: "
                        "policy_disconnected: refused\n"
                        "failed: test seed 299 after 300 steps: joint 7 broke\n"));
}

TEST(ResultTable, SaysThatNoEpisodeIsLeftWithoutAPolicy) {
  run::RunResult result;
  result.records = {Episode("test", 7, 0.0, false)};
  result.records.back().failure_reason = "policy_timeout: no answer";
  EXPECT_THAT(ResultTable(result),
              testing::HasSubstr("the remote policy gave no actions; no episode is left\n"));
}

// The same score in all episodes, changed or not.
TEST(EffectsTable, EqualDifferencesOfChangedEpisodesHaveNoInterval) {
  const run::PerturbedArm equal = {
      .name = "null", .score = {.difference = 0.0, .low = 0.0, .high = 0.0}, .n_changed = 0};
  run::PerturbedArm changed = equal;
  changed.name = "noise";
  changed.n_changed = 3;
  const std::string text = EffectsTable({.control = {}, .arms = {equal, changed}});
  EXPECT_THAT(text, testing::ContainsRegex("null .* \\+0.000 \\(\\+0.000 to \\+0.000\\) +0\n"));
  EXPECT_THAT(text, testing::ContainsRegex("noise .* \\+0.000 \\(no spread\\) +3\n"));
}

TEST(ResultTable, ASplitThatDidNotRunHasNoRow) {
  run::RunResult result;
  result.records = {Episode("test", 100000, 1.0, true)};
  EXPECT_THAT(ResultTable(result), testing::Not(testing::HasSubstr("train")));
}

}  // namespace
}  // namespace dp_bench::report
