// Early stop, and parameters with their own rules, in whole trainings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/train/workspace/fake_training.h"
#include "planner/policy_weights.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// 20 epochs of 10 batches and 3 to validate; `training` and `optimizer` are further keys.
Config LongConfig(const std::string& training, const std::string& optimizer = "") {
  return Config::FromJson(R"({"training": {"num_epochs": 20, "checkpoint_every": 50,
      "sample_every": 0, "lr_warmup_steps": 5)" +
                          (training.empty() ? "" : ", " + training) +
                          R"(}, "optimizer": {"lr": 0.05)" +
                          (optimizer.empty() ? "" : ", " + optimizer) + R"(},
      "dataloader": {"batch_size": 7}, "val_dataloader": {"batch_size": 5, "num_workers": 0},
      "dataset": {"val_ratio": 0.17, "seed": 1}})");
}

/// The best score is in epoch 1.
Scores ScoreOf(Policy& /*policy*/, int epoch) {
  return {.metrics = {{"test/mean_score", epoch == 1 ? 0.9 : 0.5}}};
}

constexpr const char* kStopOnScore =
    R"("rollout_every": 1, "early_stop": {"monitor": "test/mean_score", "mode": "max",
       "patience": 3})";
constexpr const char* kStopOnLoss =
    R"("rollout_every": 0, "val_every": 3, "early_stop": {"patience": 2, "min_delta": 1e9})";

/// With `n_losses` it is interrupted at that loss, counting training and validation together.
TrainReport TrainLong(const fs::path& output, const std::string& training, int n_losses = 0) {
  const FakeDataset dataset;
  WorkspaceParts parts = FakeParts(LongConfig(training), dataset, output);
  std::atomic<bool> stop = false;
  parts.stop = &stop;
  parts.create_policy = [&] {
    auto policy = MakeFakePolicy();
    policy->on_loss = [&] { stop = stop || --n_losses == 0; };
    return policy;
  };
  return Workspace(std::move(parts)).Run(ScoreOf);
}

TEST(EarlyStop, EndsTheTrainingWhenTheMetricNoLongerImproves) {
  const ScratchFolder scratch;
  testing::internal::CaptureStderr();
  const TrainReport report = TrainLong(scratch.path(), kStopOnScore);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("stopped early after 5 of 20 epochs: test/mean_score has not improved on "
                        "0.9 of epoch 1 for 3 epochs"));
  EXPECT_EQ(report.end, TrainEnd::kEarlyStop);
  EXPECT_EQ(report.epoch, 5);  // 0 to 4
  EXPECT_EQ(report.global_step, 50);
}

TEST(EarlyStop, SavesTheEpochItEndsWithThoughNoCheckpointIsDue) {
  const ScratchFolder scratch;
  const TrainReport report = TrainLong(scratch.path(), kStopOnLoss);
  // epoch 0 is the best; patience counts only the epochs 3 and 6
  EXPECT_EQ(report.end, TrainEnd::kEarlyStop);
  EXPECT_EQ(report.epoch, 7);
  ASSERT_TRUE(report.latest.has_value());
  const run::Checkpoint checkpoint = run::Checkpoint::Open(*report.latest);
  EXPECT_EQ(TrainState::FromJson(checkpoint.state(), "latest").epoch, 7);
}

TEST(EarlyStop, ResumedRunStopsAtTheSameEpochAndEqualsAnUnbrokenOne) {
  const ScratchFolder scratch;
  for (const char* training : {kStopOnScore, kStopOnLoss}) {
    const fs::path whole = scratch.path() / ("whole" + std::to_string(std::strlen(training)));
    const fs::path broken = whole.string() + "_broken";
    const TrainReport unbroken = TrainLong(whole, training);
    // in epoch 3 of the first; after that epoch of the other, one without improvement
    ASSERT_EQ(TrainLong(broken, training, 45).end, TrainEnd::kInterrupted);
    const TrainReport resumed = TrainLong(broken, std::string(training) + R"(, "resume": true)");
    EXPECT_EQ(resumed.end, TrainEnd::kEarlyStop);
    EXPECT_EQ(resumed.epoch, unbroken.epoch);
    EXPECT_EQ(DifferingFiles(whole, broken), "");
  }
}

TEST(EarlyStop, ResumeAfterItTrainsNoFurther) {
  const ScratchFolder scratch;
  TrainLong(scratch.path(), kStopOnScore);
  const auto before = FilesBelow(scratch.path());
  const TrainReport report =
      TrainLong(scratch.path(), std::string(kStopOnScore) + R"(, "resume": true)");
  EXPECT_EQ(report.end, TrainEnd::kEarlyStop);
  EXPECT_EQ(report.epoch, 5);
  EXPECT_EQ(FilesBelow(scratch.path()), before);
}

TEST(EarlyStop, PatienceThatEndsWithTheLastEpochIsANormalEnd) {
  const ScratchFolder scratch;
  const TrainReport report =
      TrainLong(scratch.path(), R"("rollout_every": 1, "early_stop": {"monitor": "test/mean_score",
                         "mode": "max", "patience": 18})");
  EXPECT_EQ(report.end, TrainEnd::kFinished);
  EXPECT_EQ(report.epoch, 20);
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
  const Config config = LongConfig("", R"("param_groups": )" + rules);
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

}  // namespace
}  // namespace dp_bench::train
