// Every shipped policy config with every shipped task config, both unchanged:
// docs/guide/policies.md has a table of the pairs that run and of the reason why the others do not.
// A pair that runs computes a loss and a plan on random numbers in the shapes of its task. The
// others are refused before anything is read or collected.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "dp_bench/policy.h"
#include "rollout/shape_match.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"
#include "task/experiment.h"
#include "task/key_check.h"
#include "train/batches.h"
#include "train/fit_normalizer.h"
#include "train/train_config.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kRoot = DPB_SOURCE_DIR;
constexpr const char* kRuns = "runs";

using Pair = std::pair<std::string, std::string>;  // policy, task

std::set<std::string> ConfigsIn(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.insert(file.path().stem().string());
  return names;
}

// "| `a` | b |" -> {"a", "b"}
std::vector<std::string> CellsOf(const std::string& line) {
  std::vector<std::string> cells;
  std::stringstream stream(line);
  std::string cell;
  std::getline(stream, cell, '|');
  while (std::getline(stream, cell, '|')) {
    const auto begin = cell.find_first_not_of(" `");
    const auto end = cell.find_last_not_of(" `");
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

// The table that begins with the column `task`: what each pair does.
std::map<Pair, std::string> DocumentedPairs() {
  std::ifstream page(kRoot / "docs" / "guide" / "policies.md");
  std::string line;
  while (std::getline(page, line) && !line.starts_with("| task |")) {
  }
  const std::vector<std::string> policies = CellsOf(line);
  std::getline(page, line);  // |---|---|
  std::map<Pair, std::string> pairs;
  while (std::getline(page, line) && line.starts_with("|")) {
    const std::vector<std::string> cells = CellsOf(line);
    if (cells.size() != policies.size()) throw std::runtime_error("a row of another length");
    for (std::size_t i = 1; i < cells.size(); ++i) pairs[{policies[i], cells[0]}] = cells[i];
  }
  return pairs;
}

task::ExperimentOptions OptionsOf(const Pair& pair) {
  task::ExperimentOptions options;
  options.policy = pair.first;
  options.env = pair.second;
  options.config_dirs = {kRoot / "configs"};
  options.plugin_dirs = {DPB_PLUGIN_DIR};
  return options;
}

void ExpectPlans(const task::Experiment& experiment) {
  const ShapeMeta& shapes = experiment.shape_meta();
  const auto normalizer =
      train::NormalizerConfig::FromConfig(experiment.config().Sub("normalizer"));
  const std::unique_ptr<Policy> policy = experiment.CreatePolicy();
  policy->SetNormalizer(train::NeutralNormalizer(shapes, normalizer));
  data::HostBatch host = train::SyntheticBatch(*policy, 1);
  const Batch batch = train::ToBatch(host, shapes, torch::kCPU);
  NoiseSource noise = train::BatchNoise(0, train::NoisePurpose::kTraining, 0, 1);
  const torch::NoGradGuard no_grad;
  policy->module().train();
  EXPECT_TRUE(policy->ComputeLoss(batch, noise).loss.isfinite().item<bool>());

  policy->module().eval();
  policy->WeightsChanged();
  const Horizons& horizons = policy->spec().horizons;
  const torch::Tensor plan =
      policy->PredictAction(train::ObservedSteps(batch.obs, horizons.n_obs_steps), noise);
  EXPECT_EQ(plan.sizes(), torch::IntArrayRef({1, horizons.n_action_steps, shapes.action_dim()}));
}

void ExpectRuns(const Pair& pair) {
  const task::Experiment experiment(OptionsOf(pair));
  task::RejectUnknownKeys(experiment, {.makes_policy = true});
  rollout::MatchObsKeys(experiment.DescribeEnv().shape_meta, experiment.shape_meta());
  ExpectPlans(experiment);
}

void ExpectRefused(const Pair& pair, const std::string& reason) {
  const std::string message = MessageOf(ErrorCode::kConfig, [&] {
    const task::Experiment experiment(OptionsOf(pair));
    task::RejectUnknownKeys(experiment, {.makes_policy = true});
  });
  EXPECT_THAT(message, HasSubstr(reason));
  EXPECT_THAT(message, HasSubstr(". Use "));
}

bool NeedsPython(const std::string& task) {
  std::ifstream file(kRoot / "configs" / "task" / (task + ".json"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (text.find(R"("plugin": "gymnasium")") != std::string::npos) return true;
  std::smatch included;
  return std::regex_search(text, included, std::regex(R"re("include": "(\w+)\.json")re")) &&
         NeedsPython(included[1]);
}

TEST(ShippedPairs, AllAreInTheTable) {
  const std::set<std::string> without_weights = {"remote", "random"};
  std::set<Pair> wanted;
  for (const std::string& policy : ConfigsIn(kRoot / "configs" / "policy")) {
    for (const std::string& task : ConfigsIn(kRoot / "configs" / "task")) {
      if (!NeedsPython(task) && !without_weights.contains(policy)) wanted.insert({policy, task});
    }
  }
  std::set<Pair> found;
  for (const auto& [pair, what] : DocumentedPairs()) found.insert(pair);
  EXPECT_EQ(found, wanted);
}

TEST(ShippedPairs, RunOrAreRefusedAsTheTableSays) {
  const ScratchFolder scratch;
  const fs::path before = fs::current_path();
  fs::current_path(scratch.path());  // without datasets
  for (const auto& [pair, what] : DocumentedPairs()) {
    SCOPED_TRACE(pair.first + " on " + pair.second);
    if (what == kRuns) {
      EXPECT_NO_THROW(ExpectRuns(pair));
    } else {
      ExpectRefused(pair, what);
    }
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  fs::current_path(before);
}

// Without the package of the task, so that only the configs are compared.
TEST(ShippedPairs, PlanForTasksInPython) {
  for (const std::string& task : ConfigsIn(kRoot / "configs" / "task")) {
    if (!NeedsPython(task) || task == "gymnasium") continue;  // which needs the id of an env
    for (const char* policy : {"act", "transformer", "unet_hybrid"}) {
      SCOPED_TRACE(policy + (" on " + task));
      EXPECT_NO_THROW(ExpectPlans(task::Experiment(OptionsOf({policy, task}))));
    }
  }
}

}  // namespace
}  // namespace dp_bench
