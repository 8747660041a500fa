// From the file of a suite to its commands.
#include "suite/suite_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "config/loader.h"
#include "support/error_of.h"

namespace dp_bench::suite {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

SuiteFile Parse(const std::string& text) {
  return SuiteFile::FromConfig(Config::FromJson(text, "suite.json"));
}

const char* const kTwoByTwo = R"({
  "name": "small",
  "policies": [{"policy": "unet"}, {"name": "big", "policy": "unet", "overrides": ["policy.width=9"]}],
  "tasks": [{"env": "world", "tasks": ["reach", "push"], "group": "easy"}],
  "seeds": [42, 43],
  "overrides": ["env_runner.n_test=5"]
})";

// Takes the request for a config: an env with an expert, and all overrides.
nlohmann::json Resolve(const config::ConfigRequest& request) {
  nlohmann::json config = {{"env", {{"plugin", request.env}, {"params", {{"task", request.task}}}}},
                           {"collect", {{"n_episodes", 50}, {"n_workers", 0}}},
                           {"policy", request.policy}};
  for (const std::string& text : request.overrides) {
    if (text.starts_with("env.params.python=")) {
      config["env"]["params"]["python"] = text;
    } else if (text == "dataset.mixture={}") {
      config["dataset"]["mixture"] = "all";
    } else if (text.starts_with("env_runner.n_test=")) {
      config["env_runner"]["n_test"] = std::stoi(text.substr(text.find('=') + 1));
    } else {
      config["overrides"].push_back(text);
    }
  }
  return config;
}

std::vector<SuiteStep> StepsWith(const std::string& file,
                                 const std::vector<std::string>& overrides = {}) {
  return StepsOf(Parse(file), {.folder = "out", .overrides = overrides, .resolve = &Resolve});
}

std::vector<std::string> TitlesOf(const std::vector<SuiteStep>& steps) {
  std::vector<std::string> titles;
  for (const SuiteStep& step : steps) titles.push_back(step.title);
  return titles;
}

std::vector<std::string> HashesOf(const std::vector<SuiteStep>& steps) {
  std::vector<std::string> hashes;
  for (const SuiteStep& step : steps) {
    if (step.cell) hashes.push_back(step.cell->config_sha256);
  }
  return hashes;
}

TEST(SuiteFileTest, ListsEveryTaskOfAnEntry) {
  const SuiteFile suite = Parse(kTwoByTwo);
  ASSERT_EQ(suite.tasks.size(), 2U);
  EXPECT_EQ(suite.tasks[1].name, "push");
  EXPECT_EQ(suite.tasks[1].env, "world");
  EXPECT_EQ(suite.tasks[1].group, "easy");
  EXPECT_EQ(suite.policies[1].name, "big");
}

TEST(SuiteFileTest, NamesWhatIsWrongWithItsPlace) {
  const auto fault = [](const std::string& text) {
    return MessageOf(ErrorCode::kConfig, [&] { Parse(text); });
  };
  EXPECT_THAT(fault(R"({"name": "a", "policies": [], "tasks": [{"env": "e"}]})"),
              HasSubstr("at least one entry in \"policies\""));
  EXPECT_THAT(fault(R"({"name": "a", "policies": [{}], "tasks": [{"env": "e"}]})"),
              HasSubstr("expected one of policy, config and checkpoint"));
  EXPECT_THAT(fault(R"({"name": "a", "policies": [{"policy": "p"}, {"policy": "p"}],
                        "tasks": [{"env": "e"}]})"),
              HasSubstr("two entries have the name 'p'"));
  EXPECT_THAT(fault(R"({"name": "a", "policies": [{"policy": "p"}], "tasks": [{"env": "e"}],
                        "seeds": [1, 1]})"),
              HasSubstr("different seeds"));
  EXPECT_THAT(fault(R"({"name": "a", "policies": [{"policy": "p"}],
                        "tasks": [{"env": "e", "name": "x", "tasks": ["a", "b"]}]})"),
              HasSubstr("2 tasks cannot have one name"));
  EXPECT_THAT(fault(R"({"name": "../a", "policies": [{"policy": "p"}], "tasks": [{"env": "e"}]})"),
              HasSubstr("name"));
}

TEST(SuiteStepsTest, DemonstrationsOfATaskAreCollectedOnceBeforeItsTrainings) {
  const std::vector<SuiteStep> steps = StepsWith(kTwoByTwo);
  EXPECT_THAT(TitlesOf(steps), ElementsAre("demonstrations of reach", "unet on reach, seed 42",
                                           "unet on reach, seed 43", "big on reach, seed 42",
                                           "big on reach, seed 43", "demonstrations of push",
                                           "unet on push, seed 42", "unet on push, seed 43",
                                           "big on push, seed 42", "big on push, seed 43"));
}

// Of a table of 2 policies, 2 tasks and 2 seeds.
TEST(SuiteStepsTest, SeedsAndTasksOfAnEnvShareATrial) {
  std::set<std::string> trials;
  for (const SuiteStep& step : StepsWith(kTwoByTwo)) trials.insert(step.trial);
  EXPECT_EQ(trials.size(), 3U);  // of the demonstrations and of each policy
}

TEST(SuiteStepsTest, ARunTrainsOnTheCollectedDataset) {
  const std::vector<SuiteStep> steps = StepsWith(kTwoByTwo);
  const SuiteStep& run = steps[1];
  EXPECT_EQ(run.kind, StepKind::kRun);
  EXPECT_THAT(run.needs, ElementsAre(0U));
  const auto dataset = std::ranges::find(run.command, "--dataset");
  ASSERT_NE(dataset, run.command.end());
  EXPECT_EQ(*(dataset + 1), steps[0].product.string());
  EXPECT_EQ(run.command.front(), "run");
  EXPECT_THAT(run.command, Contains("training.seed=42"));
  EXPECT_THAT(run.command, Contains("env_runner.n_test=5"));
}

TEST(SuiteStepsTest, AnotherConfigIsAnotherFolder) {
  const std::vector<SuiteStep> before = StepsWith(kTwoByTwo);
  const std::vector<SuiteStep> after = StepsWith(kTwoByTwo, {"env_runner.n_test=9"});
  EXPECT_THAT(before[1].folder.string(), StartsWith("out/cells/unet/reach/seed_42-"));
  EXPECT_NE(before[1].folder, after[1].folder);
  EXPECT_EQ(HashesOf(before), HashesOf(StepsWith(kTwoByTwo)));
}

// With a budget, a cell with more test seeds is the same cell.
TEST(SuiteStepsTest, TheNumberOfTestSeedsIsNotHashedWithABudget) {
  const auto hashes = [](const char* n_test, bool has_budget) {
    const SuiteFile random = Parse(R"({"name": "a", "tasks": [{"env": "world"}],
                                       "policies": [{"policy": "random", "trained": false}]})");
    return HashesOf(StepsOf(
        random,
        {.folder = "out", .overrides = {n_test}, .has_budget = has_budget, .resolve = &Resolve}));
  };
  EXPECT_EQ(hashes("env_runner.n_test=9", true), hashes("env_runner.n_test=5", true));
  EXPECT_NE(hashes("env_runner.n_test=9", false), hashes("env_runner.n_test=5", false));
}

TEST(SuiteStepsTest, ATrainingDoesNotDependOnTheBudget) {
  SuiteStep run =
      StepsOf(Parse(kTwoByTwo), {.folder = "out", .has_budget = true, .resolve = &Resolve})[1];
  EXPECT_EQ(run.kind, StepKind::kRun);
  EXPECT_EQ(CommandOf(run), run.command);
  EXPECT_THAT(run.command, Contains("env_runner.n_selection=5"));  // the config's n_test
  run.n_test = 20;
  EXPECT_EQ(CommandOf(run).back(), "env_runner.n_test=20");
}

TEST(SuiteStepsTest, TheInterpreterOfAnEnvIsNotPartOfTheHash) {
  EXPECT_EQ(HashesOf(StepsWith(kTwoByTwo)),
            HashesOf(StepsWith(kTwoByTwo, {"env.params.python=/opt/python"})));
}

TEST(SuiteStepsTest, APolicyWithoutWeightsIsOnlyEvaluated) {
  const std::vector<SuiteStep> steps = StepsWith(
      R"({"name": "a", "policies": [{"policy": "random", "trained": false}],
          "tasks": [{"env": "world"}], "seeds": [1, 2]})");
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].kind, StepKind::kEvaluate);
  EXPECT_EQ(steps[0].command.front(), "eval");
  EXPECT_THAT(steps[0].command, Contains("random"));
  EXPECT_THAT(steps[0].command, Not(Contains("training.seed=1")));
}

TEST(SuiteStepsTest, AMultiTaskPolicyIsTrainedOnceAndEvaluatedOnEachTask) {
  const std::vector<SuiteStep> steps = StepsWith(
      R"({"name": "a", "policies": [{"policy": "unet", "multi_task": true, "overrides": ["dataset.mixture={}"]}],
          "tasks": [{"env": "world", "tasks": ["reach", "push"]}]})");
  EXPECT_THAT(TitlesOf(steps), ElementsAre("unet on all tasks", "unet on reach", "unet on push"));
  EXPECT_EQ(steps[0].kind, StepKind::kTrain);
  EXPECT_EQ(steps[0].command.front(), "train");
  EXPECT_THAT(steps[1].needs, ElementsAre(0U));
  EXPECT_THAT(steps[2].needs, ElementsAre(0U));
  EXPECT_THAT(steps[2].command, Contains(steps[0].product.string()));
  EXPECT_NE(HashesOf(steps)[0], HashesOf(steps)[1]);
}

TEST(SuiteStepsTest, RefusesWhatCouldNotBeCounted) {
  const auto fault = [](const std::vector<std::string>& overrides, const std::string& multi_task) {
    const std::string file =
        R"({"name": "a", "tasks": [{"env": "world"}], "policies": [{"policy": "unet", "multi_task": )" +
        multi_task + "}]}";
    return MessageOf(ErrorCode::kConfig, [&] { StepsWith(file, overrides); });
  };
  EXPECT_THAT(fault({"env_runner.n_test=0"}, "false"), HasSubstr("n_test is 0"));
  EXPECT_THAT(fault({}, "true"), HasSubstr("multi_task needs dataset.mixture"));
}

}  // namespace
}  // namespace dp_bench::suite
