#include "compare/gate_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dp_bench/random.h"
#include "harness/compare/run_folders.h"
#include "report/gate_output.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::compare {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class GateReportTest : public testing::Test {
 protected:
  // A run of a task with these outcomes, as in SmallEpisodes.
  run::RunFolder Run(const std::string& task, const std::string& outcomes) {
    nlohmann::json config = SmallConfig();
    config["env"]["params"]["task"] = task;
    run::RunFolder run = SmallRun(outcomes, 1);
    run.path = "run_" + std::to_string(++n_runs_);
    run.config = config.dump();
    return run;
  }

  struct Outcomes {
    std::string task;
    std::string baseline, candidate;
  };
  std::vector<TaskPair> Pairs(const std::vector<Outcomes>& outcomes) {
    std::vector<run::RunFolder> baselines;
    std::vector<run::RunFolder> candidates;
    for (const Outcomes& task : outcomes) {
      baselines.push_back(Run(task.task, task.baseline));
      candidates.push_back(Run(task.task, task.candidate));
    }
    return MatchTasks(std::move(baselines), std::move(candidates));
  }
  static GateReport Gate(const std::vector<TaskPair>& pairs,
                         const SequentialTestConfig& config = {},
                         const StoppedGate* stopped = nullptr) {
    std::vector<GateResult> results;
    for (const TaskPair& pair : pairs) {
      results.push_back(RunGate(pair.baseline, pair.candidate, ConfigOfTask(config, pairs.size()),
                                stopped != nullptr ? &stopped->tasks.at(pair.task) : nullptr));
      results.back().task = pair.task;
    }
    return JudgeTasks(config, std::move(results));
  }
  GateReport Gate(const std::vector<Outcomes>& outcomes) { return Gate(Pairs(outcomes)); }

  // Writes the report and continues from it.
  GateReport Continue(const GateReport& report, const std::vector<TaskPair>& pairs, int max_pairs) {
    const StoppedGate stopped = ReadStoppedGate(Written(ToJson(report)));
    EXPECT_TRUE(FindChangedSettings(stopped, {}, pairs).empty());
    SequentialTestConfig config = stopped.config;
    config.max_pairs = max_pairs;
    return Gate(pairs, config, &stopped);
  }

  std::filesystem::path Written(const nlohmann::json& json) {
    std::ofstream(scratch_.path() / "gate.json") << json;
    return scratch_.path() / "gate.json";
  }

  ScratchFolder scratch_;
  int n_runs_ = 0;
};

TEST_F(GateReportTest, OfOneTaskIsItsVerdict) {
  const GateReport report = Gate({{"push", Times(30, "s"), Times(30, "f")}});
  EXPECT_EQ(report.status, GateStatus::kFail);
  EXPECT_EQ(report.reason, report.tasks[0].reason);
  EXPECT_DOUBLE_EQ(report.log_fail_evidence, report.tasks[0].log_fail_evidence());
  EXPECT_THAT(report::GateText(report), testing::StartsWith("FAIL: after 10 seeds"));
}

TEST_F(GateReportTest, PassesWhenEveryTaskPasses) {
  const std::string good = Times(30, "sf");
  EXPECT_EQ(Gate({{"push", good, good}, {"lift", good, good}}).status, GateStatus::kPass);
  const GateReport open = Gate({{"push", good, good}, {"lift", "sfs", "sfs"}});
  EXPECT_EQ(open.status, GateStatus::kInconclusive);
  EXPECT_THAT(open.reason, AllOf(HasSubstr("pusht, lift"), Not(HasSubstr("push;"))));
}

TEST_F(GateReportTest, FailsOnOneTaskAndNamesIt) {
  const std::string good = Times(30, "s");
  const GateReport report =
      Gate({{"push", good, good}, {"lift", good, Times(30, "f")}, {"pull", good, good}});
  EXPECT_EQ(report.status, GateStatus::kFail);
  EXPECT_EQ(report.reason, "a drop is shown in pusht, lift");
  // the evidence of a single task must be enough for the mean over all three
  EXPECT_GE(report.log_fail_evidence, std::log(100.0));
  EXPECT_EQ(report.tasks[0].status, GateStatus::kInconclusive);
}

TEST_F(GateReportTest, FailsOnTasksThatShowADropOnlyTogether) {
  // 9 of 10 lost: E is 102, enough for alpha .01 if both tasks have it
  const std::string old_run = Times(10, "s");
  const std::string new_run = Times(9, "f") + "s";
  const GateReport both = Gate({{"push", old_run, new_run}, {"lift", old_run, new_run}});
  EXPECT_EQ(both.status, GateStatus::kFail);
  EXPECT_EQ(both.tasks[1].status, GateStatus::kFail);
  EXPECT_THAT(both.tasks[1].reason, HasSubstr("with the evidence of the other tasks"));
  const GateReport one = Gate({{"push", old_run, new_run}, {"lift", old_run, old_run}});
  EXPECT_EQ(one.status, GateStatus::kInconclusive);
}

TEST_F(GateReportTest, ATaskWithoutAVerdictIsTheVerdict) {
  std::vector<TaskPair> pairs = Pairs({{"push", "ss", "ss"}, {"lift", "ss", "sx"}});
  const GateReport broken = Gate(pairs);
  EXPECT_EQ(broken.status, GateStatus::kInfra);
  EXPECT_THAT(broken.reason, testing::StartsWith("pusht, lift: 1 of 2 episodes"));
  EXPECT_THAT(report::GateMarkdown(broken), HasSubstr("| pusht, lift | INFRA: 1 of 2"));
  pairs[0].candidate.episodes[1].seed = 77;
  const GateReport other_seeds = Gate(pairs);
  EXPECT_EQ(other_seeds.status, GateStatus::kNotComparable);
  EXPECT_THAT(other_seeds.reason, HasSubstr("pusht, push: test seed 2 differs"));
}

TEST_F(GateReportTest, ShowsAllTasksInEveryForm) {
  const std::string good = Times(10, "s");
  const GateReport report = Gate({{"push", good, good}, {"lift", good, Times(10, "f")}});
  EXPECT_EQ(report.status,
            GateStatus::kInconclusive);  // 186 of the 200 that two tasks take
  const std::string text = report::GateText(report);
  EXPECT_THAT(text, AllOf(HasSubstr("over all 2 tasks: 93.5 of 100"), HasSubstr("\npusht, push\n"),
                          HasSubstr("evidence of a drop   186 of 200")));
  const std::string xml = report::GateJUnit(report);
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"3\""));
  EXPECT_THAT(xml, AllOf(HasSubstr("name=\"pusht, lift\""), HasSubstr("name=\"all tasks\"")));
  EXPECT_THAT(report::GateMarkdown(report),
              HasSubstr("| pusht, lift | INCONCLUSIVE | 10: 10 lost"));
  const nlohmann::json json = ToJson(report);
  EXPECT_EQ(json["tasks"].size(), 2U);
  EXPECT_EQ(json["config"]["alpha"], 0.01);
  EXPECT_EQ(json["tasks"][1]["test"]["config"]["alpha"], 0.005);
}

TEST_F(GateReportTest, ShowsForeignTextAsItIsInMarkdownAndXml) {
  const std::string good = Times(10, "s");
  const GateReport report =
      Gate({{"a|b<i>\n*c*_`", good, good}, {"\x1b[31mlift", good, Times(10, "f")}});
  const std::string markdown = report::GateMarkdown(report);
  EXPECT_THAT(markdown, HasSubstr("| pusht, a\\|b&lt;i&gt; \\*c\\*\\_\\` | INCONCLUSIVE |"));
  EXPECT_THAT(markdown, HasSubstr("| pusht, \\\\x1b\\[31mlift |"));
  EXPECT_EQ(markdown.find('\x1b'), std::string::npos);
  EXPECT_EQ(report::GateJUnit(report).find('\x1b'), std::string::npos);
}

TEST_F(GateReportTest, MatchesByTaskElseByOrder) {
  std::vector<TaskPair> pairs =
      MatchTasks({Run("push", "s"), Run("lift", "s")}, {Run("lift", "s"), Run("push", "s")});
  EXPECT_EQ(pairs[0].task, "pusht, push");
  EXPECT_EQ(run::TaskTitle(pairs[0].candidate), "pusht, push");
  // one task twice, with different parameters: matched by order
  run::RunFolder second = Run("push", "ff");
  pairs = MatchTasks({Run("push", "s"), Run("push", "s")}, {Run("push", "s"), second});
  EXPECT_EQ(pairs[1].candidate.path, second.path);
  EXPECT_EQ(pairs[1].task, "pusht, push #2");
}

TEST_F(GateReportTest, RefusesPairsThatAreInDoubtAndTellsWhatThereIs) {
  const auto fault = [](std::vector<run::RunFolder> baselines,
                        std::vector<run::RunFolder> candidates) {
    return MessageOf(ErrorCode::kUsage, [&] { MatchTasks(baselines, candidates); });
  };
  EXPECT_THAT(
      fault({Run("push", "s")}, {Run("push", "s"), Run("lift", "s")}),
      AllOf(HasSubstr("baselines"), HasSubstr("(pusht, push)"), HasSubstr("(pusht, lift)")));
  fault({Run("push", "s"), Run("lift", "s")}, {Run("push", "s"), Run("pull", "s")});
  fault({Run("push", "s"), Run("push", "s")}, {Run("push", "s"), Run("lift", "s")});
  run::RunFolder bare = Run("push", "s");
  bare.config.clear();
  EXPECT_THAT(fault({bare}, {bare, bare}), HasSubstr("names no task"));
}

TEST_F(GateReportTest, AContinuedGateEqualsTheOneInOneGo) {
  // stopped in the middle of a block, and at the end of its pairs
  const std::string old_run = Times(15, "ssf") + Times(40, "sf");
  const std::string new_run = Times(15, "sfs") + Times(40, "ff");
  for (const int n : {10, 23, 45, 60}) {
    const auto first = [n](const std::string& outcomes) {
      return outcomes.substr(0, static_cast<std::size_t>(n));
    };
    for (const std::string& other : {Times(125, "s"), new_run}) {
      SequentialTestConfig config;
      config.max_pairs = n;
      const std::vector<TaskPair> few =
          Pairs({{"push", first(old_run), first(new_run)}, {"lift", first(old_run), first(other)}});
      const std::vector<TaskPair> all =
          Pairs({{"lift", old_run, other}, {"push", old_run, new_run}});
      const GateReport stopped = Gate(few, config);
      ASSERT_EQ(stopped.status, GateStatus::kInconclusive) << n;
      EXPECT_EQ(ToJson(Continue(stopped, all, 400)), ToJson(Gate(all))) << n;
    }
  }
}

TEST_F(GateReportTest, DoesNotGoOnWithOtherOutcomesOrAnotherCheckpoint) {
  const GateReport stopped = Gate({{"push", "sssfff", "ssffff"}});
  const auto changed = [&](const std::vector<TaskPair>& pairs) {
    const GateReport report = Continue(stopped, pairs, 400);
    EXPECT_EQ(report.status, GateStatus::kNotComparable);
    EXPECT_EQ(ExitCodeOf(report.status), 4);
    return report::GateText(report);
  };
  EXPECT_THAT(changed(Pairs({{"push", "sssfffff", "ssfffsff"}})),
              HasSubstr("outcomes of the first 6 seeds differs"));
  EXPECT_THAT(changed(Pairs({{"push", "sssfffff", "ssff"}})),
              HasSubstr("number of shared seeds: 6, in the candidate 4"));

  std::vector<TaskPair> pairs = Pairs({{"push", "sssfff", "ssffff"}});
  nlohmann::json manifest = SmallManifest();
  manifest["checkpoint"]["sha256"] = "33";
  pairs[0].candidate.manifest = manifest.dump();
  const GateReport of_33 = Gate(pairs);
  manifest["checkpoint"]["sha256"] = "44";
  pairs[0].candidate.manifest = manifest.dump();
  EXPECT_THAT(report::GateText(Continue(of_33, pairs, 400)),
              HasSubstr("checkpoint: 33, in the candidate 44"));
}

TEST_F(GateReportTest, NamesEverySettingThatForbidsToGoOn) {
  const std::vector<TaskPair> pairs = Pairs({{"push", "sf", "sf"}});
  const StoppedGate stopped = ReadStoppedGate(Written(ToJson(Gate(pairs))));
  const auto fields = [&](const AskedSettings& asked, const std::vector<TaskPair>& now) {
    std::vector<std::string> found;
    for (const Mismatch& change : FindChangedSettings(stopped, asked, now)) {
      found.push_back(change.field);
    }
    return found;
  };
  EXPECT_THAT(fields({.margin = 0.1, .max_pairs = 1500}, pairs), ElementsAre());
  EXPECT_THAT(fields({.margin = 0.2, .alpha = 0.02, .beta = 0.02, .max_pairs = 100}, pairs),
              ElementsAre("margin", "alpha", "beta", "max_pairs"));
  EXPECT_THAT(fields({}, Pairs({{"lift", "sf", "sf"}})), ElementsAre("tasks"));

  const GateReport failed = Gate({{"push", Times(10, "s"), Times(10, "f")}});
  const StoppedGate decided = ReadStoppedGate(Written(ToJson(failed)));
  EXPECT_EQ(FindChangedSettings(decided, {}, pairs).at(0).field, "status");
}

TEST_F(GateReportTest, RefusesWhatIsNoStoppedGate) {
  const nlohmann::json good = ToJson(Gate({{"push", "sf", "sf"}, {"lift", "sf", "sf"}}));
  const auto fault = [this](const nlohmann::json& json) {
    return MessageOf(ErrorCode::kData, [&] { ReadStoppedGate(Written(json)); });
  };
  EXPECT_THAT(fault("x"), HasSubstr("gate.json is not what dp_bench gate --json wrote"));
  nlohmann::json bad = good;
  bad["format"] = "other";
  EXPECT_THAT(fault(bad), HasSubstr("dp_bench.gate.v1"));
  bad = good;
  bad["status"] = "GOOD";
  EXPECT_THAT(fault(bad), HasSubstr("its status is 'GOOD'"));
  bad = good;
  bad["tasks"].erase(1);
  EXPECT_THAT(fault(bad), HasSubstr("other settings"));
  bad = good;
  bad["tasks"][0]["test"]["counts"]["n_same"] = -1;
  EXPECT_THAT(fault(bad), HasSubstr("n_same is -1"));
  bad["tasks"][0]["test"]["counts"]["n_same"] = std::int64_t{1} << 40;
  EXPECT_THAT(fault(bad), HasSubstr("n_same"));
  bad["tasks"][0]["test"]["counts"]["n_same"] = 500;  // of at most 400
  EXPECT_THAT(fault(bad), HasSubstr("n_same is 500"));
  bad = good;
  bad["config"]["margin"] = 5.0;
  EXPECT_THAT(fault(bad), HasSubstr("margin of a sequential test is 5"));
  bad["config"]["margin"] = "large";
  EXPECT_THAT(fault(bad), HasSubstr("config.margin"));
  bad = good;
  bad["tasks"] = nlohmann::json::array();
  EXPECT_THAT(fault(bad), HasSubstr("no tasks"));
  EXPECT_EQ(CodeOf([this] { ReadStoppedGate(scratch_.path() / "absent"); }), ErrorCode::kIo);
}

// Policies without a drop, on tasks that share their luck: a third of the seeds change, and in the
// same direction in all tasks.
TEST(GateReportErrors, AFalseFailStaysBelowAlphaWhateverTheTasksShare) {
  SequentialTestConfig config;
  config.alpha = 0.05;
  config.max_pairs = 200;
  constexpr int kGates = 2000;
  int n_failed = 0;
  int n_failed_in_one = 0;
  for (int gate = 0; gate < kGates; ++gate) {
    RandomStream random(11, StreamId::kEnvNoise, static_cast<std::uint64_t>(gate));
    std::vector<GateResult> tasks(
        3, {.task = "task", .test = SequentialTest(ConfigOfTask(config, 3))});
    bool has_e_of_one = false;
    for (int pair = 0; pair < config.max_pairs; ++pair) {
      const double luck = random.UniformDouble();
      for (GateResult& task : tasks) {
        const bool changes = random.UniformDouble() < 1.0 / 3.0;
        if (!task.test.is_finished()) task.test.Add(changes && luck < 0.5, changes && luck >= 0.5);
        has_e_of_one = has_e_of_one || task.log_fail_evidence() >= -std::log(config.alpha);
      }
    }
    n_failed_in_one += has_e_of_one ? 1 : 0;
    n_failed += JudgeTasks(config, std::move(tasks)).status == GateStatus::kFail ? 1 : 0;
  }
  EXPECT_LE(n_failed, config.alpha * kGates);
  // three gates without the mean would have been wrong more often
  EXPECT_GT(n_failed_in_one, n_failed);
}

}  // namespace
}  // namespace dp_bench::compare
