// Parameters with their own rules, in whole trainings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "harness/train/workspace/fake_training.h"
#include "planner/policy_weights.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// 20 epochs of 10 batches and 3 to validate, with parameter groups.
Config LongConfig(const std::string& param_groups) {
  return Config::FromJson(R"({"training": {"num_epochs": 20, "checkpoint_every": 50,
      "sample_every": 0, "lr_warmup_steps": 5}, "optimizer": {"lr": 0.05, "param_groups": )" +
                          param_groups + R"(},
      "dataloader": {"batch_size": 7}, "val_dataloader": {"batch_size": 5, "num_workers": 0},
      "dataset": {"val_ratio": 0.17, "seed": 1}})");
}

/// The parameters of a training: initial, final, and averaged.
struct Trained {
  std::map<std::string, torch::Tensor> before;
  std::map<std::string, torch::Tensor> after;
  std::map<std::string, torch::Tensor> ema;
  run::Checkpoint checkpoint;
};

std::map<std::string, torch::Tensor> CopyOf(const TensorMap& tensors) {
  std::map<std::string, torch::Tensor> copies;
  for (const auto& [name, tensor] : tensors) copies[name] = tensor.detach().clone();
  return copies;
}

Trained TrainWithRules(const fs::path& output, const std::string& rules) {
  const FakeDataset dataset;
  const Config config = LongConfig(rules);
  WorkspaceParts parts = FakeParts(config, dataset, output);
  std::map<std::string, torch::Tensor> before;
  parts.create_policy = [&] {
    auto policy = MakeFakePolicy();
    if (before.empty()) {
      for (const auto& item : policy->module().named_parameters()) {
        before[item.key()] = item.value().detach().clone();
      }
    }
    return policy;
  };
  const TrainReport report = Workspace(std::move(parts)).Run({});
  run::Checkpoint checkpoint = run::Checkpoint::Open(*report.latest);
  const auto after = CopyOf(planner::ToTensors(checkpoint.ReadTensors(run::kModelFile)));
  const auto ema = CopyOf(planner::ToTensors(checkpoint.ReadTensors(run::kEmaFile)));
  return {.before = before, .after = after, .ema = ema, .checkpoint = std::move(checkpoint)};
}

TEST(ParameterRules, FrozenParametersStayBitEqualAndHaveNoOptimizerState) {
  const ScratchFolder scratch;
  const Trained run = TrainWithRules(scratch.path(), R"([{"pattern": "weight$", "frozen": true}])");
  EXPECT_TRUE(torch::equal(run.after.at("linear.weight"), run.before.at("linear.weight")));
  EXPECT_TRUE(torch::equal(run.ema.at("linear.weight"), run.before.at("linear.weight")));
  EXPECT_FALSE(torch::equal(run.after.at("linear.bias"), run.before.at("linear.bias")));
  EXPECT_FALSE(torch::equal(run.ema.at("linear.bias"), run.after.at("linear.bias")));
  const ArrayMap optimizer = run.checkpoint.ReadTensors(run::kOptimizerFile);
  EXPECT_FALSE(optimizer.contains("linear.weight.exp_avg"));
  EXPECT_TRUE(optimizer.contains("linear.bias.exp_avg"));
}

TEST(ParameterRules, ScaleZeroHoldsParametersWhileTheLoggedRateIsTheBaseRate) {
  const ScratchFolder scratch;
  const Trained run = TrainWithRules(scratch.path(), R"([{"pattern": "bias", "lr_scale": 0.0}])");
  EXPECT_TRUE(torch::equal(run.after.at("linear.bias"), run.before.at("linear.bias")));
  EXPECT_FALSE(torch::equal(run.after.at("linear.weight"), run.before.at("linear.weight")));
  EXPECT_THAT(core::ReadTextFile(scratch.path() / "logs.json.txt", 1U << 20),
              HasSubstr("\"lr\":0.05"));
}

TEST(ParameterRules, PatternWithoutParametersIsAnErrorBeforeTheTraining) {
  const ScratchFolder scratch;
  EXPECT_THAT(
      MessageOf(
          ErrorCode::kConfig,
          [&] { TrainWithRules(scratch.path(), R"([{"pattern": "backbone", "lr_scale": 0.1}])"); }),
      HasSubstr("optimizer.param_groups.0.pattern: 'backbone' matches none of the policy's "
                "2 parameters; some of their names: linear.weight, linear.bias"));
}

TEST(TrainingEpisodes, ALimitSaysWhatItLeavesOut) {
  const ScratchFolder scratch;
  const FakeDataset dataset;
  const auto output_with = [&](const std::string& limit) {
    const Config config = Config::FromJson(
        R"({"dataset": {"val_ratio": 0.17, "max_train_episodes": )" + limit + "}}");
    testing::internal::CaptureStderr();
    { const Workspace workspace(FakeParts(config, dataset, scratch.path())); }
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(output_with("3"), HasSubstr("trains on 3 of 6 episodes, 1 more validate: <text>:1: "
                                          "dataset.max_train_episodes leaves out 2"));
  EXPECT_THAT(output_with("5"), testing::Not(HasSubstr("trains on")));
}

class LooksAhead final : public FakePolicy {
 public:
  LooksAhead() : FakePolicy(0.05F) {}
  int n_train_obs_steps() const override { return 4; }
};

TEST(RollForwardTraining, TheStateAndTheTargetsOfATrainingMove) {
  const ScratchFolder scratch;
  const FakeDataset dataset;
  const auto train = [&](const std::string& name, int max_roll_forward) {
    const auto config = Config::FromJson(R"({"training": {"num_epochs": 1, "max_roll_forward": )" +
                                         std::to_string(max_roll_forward) + R"(}, "env_runner":
        {"chunking": {"followed_actions": {"agent_pos": [1, 0]}}}})");
    return Workspace(FakeParts(config, dataset, scratch.path() / name)).Run({}).train_loss;
  };
  const double plain = train("plain", 0);
  EXPECT_EQ(train("again", 0), plain);
  EXPECT_NE(train("rolled", 2), plain);
}

TEST(RollForwardTraining, NeedsToKnowWhatFollowsWhichActions) {
  const ScratchFolder scratch;
  const FakeDataset dataset;
  const auto config = Config::FromJson(R"({"training": {"max_roll_forward": 2}})");
  EXPECT_THAT(
      MessageOf(ErrorCode::kConfig, [&] { Workspace(FakeParts(config, dataset, scratch.path())); }),
      HasSubstr("env_runner.chunking.followed_actions: state_roll_forward needs to know "
                "which observations follow which actions"));
}

TEST(RollForwardTraining, RefusesAPolicyThatTrainsOnLaterObservations) {
  const ScratchFolder scratch;
  const FakeDataset dataset;
  WorkspaceParts parts = FakeParts(Config::FromJson(R"({"training": {"max_roll_forward": 2}})"),
                                   dataset, scratch.path());
  parts.create_policy = [] { return std::make_unique<LooksAhead>(); };
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { const Workspace workspace(std::move(parts)); }),
              HasSubstr("training.max_roll_forward needs a policy that trains on what it observes "
                        "when it acts, n_obs_steps = 2 steps; found one that trains on 4"));
}

}  // namespace
}  // namespace dp_bench::train
