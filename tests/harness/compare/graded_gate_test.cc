// The gate by a score: what the baseline fixes, and what decides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "compare/gate_report.h"
#include "compare/graded_score.h"
#include "harness/compare/run_folders.h"
#include "report/gate_output.h"
#include "support/error_of.h"

namespace dp_bench::compare {
namespace {

using testing::HasSubstr;

// Every episode succeeds after `first_step` steps of 300, seed 3 never.
run::RunFolder RunWith(int first_step, double score, int n = 200) {
  run::RunFolder run = SmallRun(Times(n, "s"));
  for (run::EpisodeRecord& record : run.episodes) {
    record.score = score;
    record.n_steps = record.success_steps.first = first_step;
  }
  run.episodes[3].success = false;
  run.episodes[3].n_steps = 300;
  run.episodes[3].success_steps = {};
  return run;
}

run::RunFolder BaselineOf(const run::RunFolder& run, std::string_view decided_by) {
  return ParseBaseline(BaselineJson(run, decided_by), "baseline.json");
}

TEST(GradedGate, FailsASlowerPolicyOnlyIfTimeDecides) {
  const run::RunFolder before = RunWith(60, 1.0);
  const run::RunFolder slower = RunWith(240, 1.0);
  EXPECT_EQ(RunGate(BaselineOf(before, kBySuccess), slower, {}).status, GateStatus::kPass);
  const GateResult result = RunGate(BaselineOf(before, kByTime), slower, {});
  EXPECT_EQ(result.status, GateStatus::kFail);
  EXPECT_NEAR(result.drop.drop, 0.5 * 180.0 / 300.0, 0.02);  // one pair of both failing
  EXPECT_THAT(result.reason, HasSubstr("drop of the mean score for time to success is shown"));
  const std::string text = report::GateText(JudgeTasks({}, {result}));
  EXPECT_THAT(text, HasSubstr("decided by"));
  EXPECT_THAT(text, HasSubstr("by success alone"));
}

TEST(GradedGate, DecidesByTheRecordedScore) {
  const run::RunFolder baseline = BaselineOf(RunWith(60, 0.9), kByScore);
  EXPECT_EQ(RunGate(baseline, RunWith(60, 0.5), {}).status, GateStatus::kFail);
  EXPECT_EQ(RunGate(baseline, RunWith(60, 0.9), {}).status, GateStatus::kPass);
}

TEST(GradedGate, OldBaselinesDecideBySuccess) {
  const std::string text = BaselineJson(RunWith(60, 1.0));
  EXPECT_THAT(text, testing::Not(HasSubstr("decided_by")));
  EXPECT_EQ(ParseBaseline(text, "b").decided_by, kBySuccess);
}

TEST(GradedGate, GivesTheVerdictOfOutcomesForBinaryScores) {
  run::RunFolder before = RunWith(60, 1.0);
  run::RunFolder now = before;
  for (std::size_t i = 0; i < now.episodes.size(); i += 3) now.episodes[i].success = false;
  for (run::RunFolder* run : {&before, &now}) {
    for (run::EpisodeRecord& record : run->episodes) record.score = record.success ? 1.0 : 0.0;
  }
  const GateResult by_success = RunGate(BaselineOf(before, kBySuccess), now, {});
  const GateResult by_score = RunGate(BaselineOf(before, kByScore), now, {});
  EXPECT_EQ(by_success.status, GateStatus::kFail);
  EXPECT_EQ(by_score.status, by_success.status);
  ASSERT_EQ(by_score.test.looks().size(), by_success.test.looks().size());
  EXPECT_NEAR(by_score.log_fail_evidence(), by_success.log_fail_evidence(), 1e-10);
}

TEST(GradedGate, RefusesScoresOutOfRangeAndUnknownSteps) {
  const auto fault = [](const run::RunFolder& run, std::string_view decided_by) {
    return MessageOf(ErrorCode::kData, [&] { BaselineJson(run, decided_by); });
  };
  EXPECT_THAT(fault(RunWith(60, 17.0), kByScore), HasSubstr("seed 100000 has 17"));
  run::RunFolder old = RunWith(60, 1.0);
  old.episodes[2].success_steps = {};
  EXPECT_THAT(fault(old, kByTime), HasSubstr("step of success, which seed 100002 does not have"));
  old.episodes[2].course = run::EpisodeCourse{.is_terminated = true};  // then it is the last step
  EXPECT_NO_THROW(BaselineJson(old, kByTime));
  std::string text = BaselineJson(RunWith(60, 1.0), kByTime);
  text.replace(text.find("time_to_success"), 15, "the_weather_now");
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { ParseBaseline(text, "b.json"); }),
              HasSubstr("expected one of success, score, time_to_success"));
}

TEST(GradedGate, ContinuesOnlyWithTheScoreThatDecidedBefore) {
  const run::RunFolder before = RunWith(60, 1.0, 20);
  run::RunFolder now = RunWith(90, 1.0, 20);
  GateResult first = RunGate(BaselineOf(before, kByTime), now, {});
  first.task = "task";
  ASSERT_EQ(first.status, GateStatus::kInconclusive);
  const StoppedGate stopped = ParseStoppedGate(ToJson(JudgeTasks({}, {first})).dump(), "gate.json");
  const GateProgress& earlier = stopped.tasks.at("task");
  EXPECT_EQ(RunGate(BaselineOf(before, kByTime), now, {}, &earlier).outcomes_hash,
            first.outcomes_hash);
  const GateResult other = RunGate(BaselineOf(before, kBySuccess), now, {}, &earlier);
  EXPECT_EQ(other.status, GateStatus::kNotComparable);
  EXPECT_EQ(other.mismatches.at(0).field, "decided_by");
  now.episodes[5].success_steps.first = 91;  // another score, the same outcome
  EXPECT_EQ(RunGate(BaselineOf(before, kByTime), now, {}, &earlier).status,
            GateStatus::kNotComparable);
}

}  // namespace
}  // namespace dp_bench::compare
