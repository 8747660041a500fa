#include "compare/gate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "compare/gate_report.h"
#include "harness/compare/run_folders.h"
#include "report/gate_output.h"
#include "run/foreign_result.h"
#include "run/manifest.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::compare {
namespace {

using testing::HasSubstr;

class Gate : public testing::Test {
 protected:
  // Outcomes as in WriteSmallRun; "episode <i> of <hashes>" is the trace hash.
  run::RunFolder Run(const std::string& name, const std::string& outcomes,
                     const std::string& hashes) {
    WriteSmallRun(scratch_.path() / name, outcomes, 1);
    run::RunFolder run = run::ReadRunFolder(scratch_.path() / name);
    for (run::EpisodeRecord& record : run.episodes) {
      record.trace_hash = "episode " + std::to_string(record.episode) + " of " + hashes;
    }
    return run;
  }
  run::RunFolder Baseline(const std::string& outcomes) {
    return Run("baseline", outcomes, "baseline");
  }
  run::RunFolder Candidate(const std::string& outcomes) {
    return Run("candidate", outcomes, "candidate");
  }

  ScratchFolder scratch_;
};

TEST_F(Gate, PassesAtOnceWhenEveryEpisodeIsTheSame) {
  const GateResult result =
      RunGate(Baseline("ssffssff"), Run("candidate", "ssffssff", "baseline"), {});
  EXPECT_EQ(result.status, GateStatus::kPass);
  EXPECT_TRUE(result.has_signature);
  EXPECT_THAT(result.reason, HasSubstr("no change: 8 of 8"));
}

TEST_F(Gate, NeedsEightEpisodesAndAllOfThemForTheSignature) {
  EXPECT_EQ(RunGate(Baseline("ssffssf"), Run("candidate", "ssffssf", "baseline"), {}).status,
            GateStatus::kInconclusive);
  run::RunFolder late = Run("candidate", "ssffssffs", "baseline");
  late.episodes[8].trace_hash = "other";
  EXPECT_FALSE(RunGate(Baseline("ssffssffs"), late, {}).has_signature);
}

TEST_F(Gate, SaysWhetherTheMachineMayExplainOtherEpisodes) {
  const auto of_class = [](run::RunFolder run, const char* name) {
    auto manifest = nlohmann::json::parse(run.manifest);
    manifest["outcome_class"] = name;
    run.manifest = manifest.dump();
    return run;
  };
  const run::RunFolder baseline = of_class(Baseline("ssffssff"), "no pictures, x86-64");
  const GateResult same =
      RunGate(baseline, of_class(Candidate("ssffssff"), "no pictures, x86-64"), {});
  EXPECT_THAT(same.note, HasSubstr("8 of 8 episodes differ"));
  EXPECT_THAT(same.note, HasSubstr("the policy, the env, dp_bench or LibTorch changed"));
  const GateResult other = RunGate(baseline, of_class(Candidate("ssffssff"), "pictures, x"), {});
  EXPECT_THAT(other.note,
              HasSubstr("the processor or what runs the policy on it may be the cause"));
  EXPECT_EQ(RunGate(baseline, Candidate("ssffssff"), {}).note, "");
  EXPECT_EQ(RunGate(baseline, baseline, {}).note, "");

  const run::RunFolder read = ParseBaseline(BaselineJson(baseline), "baseline.json");
  EXPECT_EQ(run::OutcomeClassOf(read.manifest), "no pictures, x86-64");
}

TEST_F(Gate, FailsOnAShownDrop) {
  const GateResult result = RunGate(Baseline(Times(30, "s")), Candidate(Times(30, "f")), {});
  EXPECT_EQ(result.status, GateStatus::kFail);
  EXPECT_EQ(ExitCodeOf(result.status), 1);
  EXPECT_EQ(result.test.counts().n_lost, 10);  // and stops there
  EXPECT_EQ(result.candidate.n, 10);
  EXPECT_DOUBLE_EQ(result.drop.drop, 1.0);
}

TEST_F(Gate, PassesWhenTheMarginIsExcluded) {
  const GateResult result = RunGate(Baseline(Times(30, "sf")), Candidate(Times(30, "sf")), {});
  EXPECT_EQ(result.status, GateStatus::kPass);
  EXPECT_FALSE(result.has_signature);
  EXPECT_EQ(result.test.counts().n_pairs(), 40);  // the first block after 37
  EXPECT_DOUBLE_EQ(result.rho, 1.0);
}

TEST_F(Gate, IsInconclusiveOnFewSeedsAndGoesOnWithMore) {
  const GateResult few = RunGate(Baseline(Times(30, "sf")), Candidate(Times(10, "sf")), {});
  EXPECT_EQ(few.status, GateStatus::kInconclusive);
  EXPECT_EQ(ExitCodeOf(few.status), 3);
  EXPECT_EQ(few.n_shared, 20);
  EXPECT_THAT(few.reason, HasSubstr("evaluate more seeds"));
  const GateResult more = RunGate(Baseline(Times(30, "sf")), Candidate(Times(30, "sf")), {});
  EXPECT_EQ(more.test.looks()[1].log_pass_evidence, few.test.looks()[1].log_pass_evidence);
  SequentialTestConfig short_test;
  short_test.max_pairs = 20;
  EXPECT_THAT(RunGate(Baseline(Times(30, "sf")), Candidate(Times(30, "sf")), short_test).reason,
              HasSubstr("--max-pairs"));
}

TEST_F(Gate, RefusesAnotherTaskOrOtherSeedsNamingThem) {
  run::RunFolder other = Candidate("ssss");
  nlohmann::json config = SmallConfig();
  config["env"]["params"]["task"] = "lift";
  other.config = config.dump();
  const GateResult task = RunGate(Baseline("ssss"), other, {});
  EXPECT_EQ(task.status, GateStatus::kNotComparable);
  EXPECT_EQ(ExitCodeOf(task.status), 4);
  EXPECT_THAT(task.reason, HasSubstr("env.params.task"));

  run::RunFolder gap = Candidate("ssss");
  gap.episodes.erase(gap.episodes.begin() + 1);
  const GateResult seeds = RunGate(Baseline("ssss"), gap, {});
  EXPECT_EQ(seeds.status, GateStatus::kNotComparable);
  EXPECT_THAT(report::GateText(JudgeTasks({}, {seeds})),
              HasSubstr("test seed 2: 2, in the candidate 3"));
}

// Independent outcomes are the rows with rho = 0 of the test of the operating characteristics.
TEST_F(Gate, PairsResultsWithoutSeedsInTheirOrder) {
  run::RunFolder theirs = {.path = "eval_info.json", .episodes = SmallEpisodes(Times(30, "s"), 0)};
  theirs.seed_origin = "LeRobot";
  theirs.has_seeds = false;
  const GateResult same = RunGate(Baseline(Times(30, "s")), theirs, {});
  EXPECT_TRUE(same.mismatches.empty());
  EXPECT_EQ(same.n_shared, 30);
  EXPECT_FALSE(same.has_signature);
  EXPECT_THAT(same.note, HasSubstr("unpaired: eval_info.json has no seeds (LeRobot wrote it)"));
  theirs.episodes = SmallEpisodes(Times(30, "f"), 0);
  EXPECT_EQ(RunGate(Baseline(Times(30, "s")), theirs, {}).status, GateStatus::kFail);
}

TEST_F(Gate, KeepsTheOriginOfABaselineFromAnotherProgram) {
  run::RunFolder theirs = {.path = "results.json", .episodes = SmallEpisodes("sfs", 0)};
  theirs.seed_origin = "vla-eval";
  theirs.tasks = {"lift", "push"};
  const run::RunFolder read = ParseBaseline(BaselineJson(theirs), "baseline.json");
  EXPECT_EQ(read.seed_origin, "vla-eval");
  EXPECT_EQ(read.tasks, theirs.tasks);
  EXPECT_TRUE(read.has_seeds);
  EXPECT_EQ(RunGate(read, theirs, {}).n_shared, 3);
  theirs.tasks = {"lift"};
  EXPECT_EQ(RunGate(read, theirs, {}).status, GateStatus::kNotComparable);
}

TEST_F(Gate, GivesNoVerdictWhenEpisodesBroke) {
  const GateResult result = RunGate(Baseline(Times(50, "s")), Candidate(Times(49, "s") + "x"), {});
  EXPECT_EQ(result.status, GateStatus::kInfra);
  EXPECT_EQ(ExitCodeOf(result.status), 5);
  EXPECT_THAT(result.reason, testing::AllOf(HasSubstr("1 of 50 episodes"), HasSubstr("candidate")));
  EXPECT_THAT(RunGate(Baseline("sx"), Candidate("ss"), {}).reason, HasSubstr("1 of 2 episodes of"));
  // one in a hundred counts as not successful
  EXPECT_EQ(RunGate(Baseline(Times(100, "s")), Candidate("x" + Times(99, "s")), {}).status,
            GateStatus::kPass);
}

TEST_F(Gate, SaysHowManySucceededWherePolicyServersDidTheirPart) {
  run::RunFolder candidate = Candidate("x" + Times(99, "s"));
  candidate.episodes[0].failure_reason = "policy_timeout: no answer";
  EXPECT_THAT(
      RunGate(Baseline(Times(100, "s")), candidate, {}).note,
      HasSubstr("1 of the candidate's episodes broke and count as not successful. Its "
                "policy's server was the reason for 1; 99 of the other 99 were successful"));
  candidate.episodes[1].failure_reason = "policy_timeout: no answer";
  candidate.episodes[1].success = false;
  EXPECT_THAT(RunGate(Baseline(Times(100, "s")), candidate, {}).reason,
              HasSubstr("was the reason for 2; 98 of the other 98 were successful"));
}

GateReport ReportOf(const GateResult& result) { return JudgeTasks({}, {result}); }

TEST_F(Gate, WritesJsonJUnitAndMarkdown) {
  const GateReport fail =
      ReportOf(RunGate(Baseline(Times(10, "s")), Candidate(Times(10, "f")), {}));
  const nlohmann::json json = ToJson(fail);
  EXPECT_EQ(json["status"], "FAIL");
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["tasks"][0]["test"]["verdict"], "FAIL");
  EXPECT_THAT(report::GateJUnit(fail),
              HasSubstr("tests=\"1\" failures=\"1\" errors=\"0\" skipped=\"0\""));
  EXPECT_THAT(report::GateJUnit(fail), HasSubstr("<failure message=\"FAIL: after 10 seeds"));
  EXPECT_THAT(report::GateMarkdown(fail), HasSubstr("### Success rate: FAIL"));
  EXPECT_THAT(report::GateMarkdown(fail), HasSubstr("| seeds | 10: 10 lost, 0 gained, 0 same |"));
  EXPECT_THAT(report::GateText(fail), HasSubstr("evidence of a drop   186 of 100"));

  const GateReport few = ReportOf(RunGate(Baseline("s"), Candidate("s"), {}));
  EXPECT_THAT(report::GateJUnit(few), HasSubstr("<skipped message"));
  run::RunFolder other = Candidate("s");
  other.config = R"({"env": {"plugin": "<&>"}})";
  EXPECT_THAT(report::GateJUnit(ReportOf(RunGate(Baseline("s"), other, {}))),
              HasSubstr("&lt;&amp;&gt;"));
}

// A result of other programs: for each task the outcomes of its episodes.
run::RunFolder OfTasks(const std::vector<std::string>& tasks) {
  std::string text = "seed,success,task\n";
  for (std::size_t k = 0; k < tasks.size(); ++k) {
    for (std::size_t i = 0; i < tasks[k].size(); ++i) {
      text += fmt::format("{},{},task {}\n", i, tasks[k][i], k);
    }
  }
  return run::ParseForeignResult(text, "result.csv");
}

TEST(GateOfTasks, SeesAllTasksBeforeItStops) {
  const run::RunFolder baseline = OfTasks({Times(50, "1"), Times(50, "1")});
  const run::RunFolder candidate = OfTasks({Times(50, "1"), Times(50, "0")});
  EXPECT_EQ(RunGate(baseline, candidate, {}).status, GateStatus::kFail);
}

TEST(GateOfTasks, PairsEpisodesOfTheSameTaskWithoutSeeds) {
  run::RunFolder baseline = OfTasks({Times(50, "1"), Times(50, "0")});
  run::RunFolder candidate = OfTasks({Times(20, "1"), Times(20, "0")});
  baseline.has_seeds = false;
  candidate.has_seeds = false;
  const GateResult result = RunGate(baseline, candidate, {});
  EXPECT_EQ(result.test.counts().n_lost, 0);
  EXPECT_EQ(result.n_shared, 40);
}

TEST(GateOfTasks, ATaskMayHaveFewerEpisodes) {
  const run::RunFolder baseline = OfTasks({Times(50, "1"), Times(50, "1")});
  const GateResult result = RunGate(baseline, OfTasks({Times(50, "1"), Times(10, "1")}), {});
  EXPECT_TRUE(result.mismatches.empty());
  EXPECT_EQ(result.n_shared, 60);
}

TEST(GateOfTasks, ARunWithoutTasksIsPairedInOrder) {
  run::RunFolder baseline = OfTasks({Times(20, "1"), Times(20, "1")});
  run::RunFolder candidate = OfTasks({Times(40, "1")});
  candidate.tasks.clear();
  baseline.has_seeds = false;
  candidate.has_seeds = false;
  EXPECT_EQ(RunGate(baseline, candidate, {}).n_shared, 40);
}

TEST_F(Gate, ReadsABaselineBackAsTheRunThatItWas) {
  const run::RunFolder run = Baseline("sxf");
  const std::filesystem::path file = scratch_.path() / "baseline.json";
  std::ofstream(file) << BaselineJson(run);
  const run::RunFolder back = ReadBaseline(file);
  EXPECT_EQ(run::RunTitle(back), run::RunTitle(run));
  EXPECT_TRUE(FindMismatches(run, back).empty());
  ASSERT_EQ(back.episodes.size(), 3U);
  EXPECT_EQ(back.episodes[1].failure_reason, "the env threw");
  EXPECT_EQ(back.episodes[2].trace_hash, run.episodes[2].trace_hash);
  EXPECT_EQ(BaselineJson(back), BaselineJson(run));
}

TEST_F(Gate, RefusesABaselineWithoutOutcomes) {
  const auto fault = [](const run::RunFolder& run) {
    return MessageOf(ErrorCode::kData, [&] { BaselineJson(run); });
  };
  EXPECT_THAT(fault(Baseline("")), HasSubstr("has no test episodes"));
  EXPECT_THAT(fault(Baseline("xxx")), HasSubstr("all of its 3 test episodes broke, the first with: "
                                                "the env threw"));
  run::RunFolder trained = Baseline("xxx");
  trained.episodes.insert(
      trained.episodes.begin(),
      run::EpisodeRecord{.split = "train", .failure_reason = "of a training seed"});
  EXPECT_THAT(fault(trained), HasSubstr("the first with: the env threw"));
  run::RunFolder unfinished = Baseline("sss");
  unfinished.unfinished = "continue with dp_bench eval --resume x";
  EXPECT_EQ(fault(unfinished), "continue with dp_bench eval --resume x");
  EXPECT_NE(BaselineJson(Baseline("xxf")), "");
}

TEST_F(Gate, RefusesWhatIsNoBaseline) {
  const std::filesystem::path file = scratch_.path() / "baseline.json";
  const auto fault = [&file](const std::string& text) {
    std::ofstream(file) << text;
    return MessageOf(ErrorCode::kData, [&] { ReadBaseline(file); });
  };
  EXPECT_THAT(fault("{"), HasSubstr("baseline.json is not a baseline"));
  EXPECT_THAT(fault(R"({"format": "other"})"), HasSubstr("not of the format dp_bench.baseline.v1"));
  EXPECT_THAT(fault(R"({"format": "dp_bench.baseline.v1", "config": {}, "env_plugin": null,
                        "episodes": []})"),
              HasSubstr("without episodes"));
  run::RunFolder twice = Baseline("ss");
  twice.episodes[1].seed = twice.episodes[0].seed;
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { BaselineJson(twice); }),
              HasSubstr("two test episodes of seed 1"));
  run::RunFolder bare = Baseline("s");
  bare.config.clear();
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { BaselineJson(bare); }),
              HasSubstr("cannot become a baseline"));
}

}  // namespace
}  // namespace dp_bench::compare
