// The training loop: resume bit for bit, accumulation, logging, checkpoints, errors.
#include "train/workspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/machine.h"
#include "dp_bench/error.h"
#include "harness/train/workspace/fake_training.h"
#include "planner/policy_weights.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// `on_loss` gets the number of the loss; training and validation are counted together.
TrainReport Train(const fs::path& output, const std::string& training = "",
                  const std::atomic<bool>* stop = nullptr,
                  const std::function<void(int n_losses)>& on_loss = {}) {
  const FakeDataset dataset;
  WorkspaceParts parts = FakeParts(FakeConfig(training), dataset, output);
  parts.stop = stop;
  parts.create_policy = MakePoliciesThatCount(on_loss);
  return Workspace(std::move(parts)).Run(FakeEvaluate);
}

/// Stops a training from inside at its n-th loss.
TrainReport TrainUntilLoss(int n, const fs::path& output, const std::string& training = "") {
  std::atomic<bool> stop = false;
  return Train(output, training, &stop, [&](int n_losses) { stop = stop || n_losses == n; });
}

/// The message with which a training ends that has no memory for its n-th loss.
std::string MessageWithoutMemory(int n, const fs::path& output, const std::string& training = "") {
  const auto run_out = [n](int n_losses) {
    if (n_losses == n) throw core::OutOfMemory("cannot allocate 5 GiB");
  };
  try {
    Train(output, training, nullptr, run_out);
  } catch (const core::OutOfMemory& error) {
    return error.what();
  }
  ADD_FAILURE() << "the training ended";
  return "";
}

class WorkspaceTest : public testing::Test {
 protected:
  const ScratchFolder scratch_;
  const FakeDataset dataset_;
};

TEST_F(WorkspaceTest, WithoutMemoryForAStepTheFinishedOnesAreKeptAndContinueBitForBit) {
  const fs::path whole = scratch_.path() / "whole";
  const fs::path cut = scratch_.path() / "cut";
  Train(whole);
  EXPECT_THAT(MessageWithoutMemory(8, cut),
              testing::AllOf(HasSubstr("cannot allocate 5 GiB at epoch 0, global_step 7"),
                             HasSubstr("up to step 7 is kept in")));
  Train(cut, R"("resume": true)");
  const char* const model = "checkpoints/latest/model.safetensors";
  EXPECT_EQ(FilesBelow(cut).at(model), FilesBelow(whole).at(model));
}

TEST_F(WorkspaceTest, WithoutMemoryForTheFirstStepThereIsNoCheckpoint) {
  EXPECT_THAT(MessageWithoutMemory(1, scratch_.path()), HasSubstr("There is no checkpoint yet."));
}

TEST_F(WorkspaceTest, WithoutMemoryWithinAnAccumulationWindowTheLastCheckpointIsKept) {
  EXPECT_THAT(MessageWithoutMemory(40, scratch_.path(), R"("gradient_accumulate_every": 4)"),
              HasSubstr("is kept in"));
}

TEST_F(WorkspaceTest, LearnsAndReportsWhatItDid) {
  const TrainReport report = Train(scratch_.path());
  EXPECT_EQ(report.end, TrainEnd::kFinished);
  EXPECT_EQ(report.epoch, 4);
  EXPECT_EQ(report.global_step, 40);
  EXPECT_EQ(report.latest, scratch_.path() / "checkpoints" / "latest");
  EXPECT_TRUE(report.metrics.contains("test/mean_score"));
  const auto log = LogOf(scratch_.path());
  EXPECT_LT(report.train_loss, 0.7 * log.front()["train_loss"].get<double>());
}

TEST_F(WorkspaceTest, LogHasOneLinePerStepWithTheKeysOfUpstream) {
  Train(scratch_.path());
  const auto log = LogOf(scratch_.path());
  ASSERT_EQ(log.size(), 40U);
  for (std::size_t i = 0; i < log.size(); ++i) {
    EXPECT_EQ(log[i]["global_step"], i);
    EXPECT_EQ(log[i]["epoch"], i / 10);
    EXPECT_TRUE(log[i].contains("train_loss") && log[i].contains("lr"));
    const bool is_last_of_epoch = i % 10 == 9;
    EXPECT_EQ(log[i].contains("val_loss"), is_last_of_epoch);
    const bool is_evaluated = i == 9 || i == 29 || i == 39;  // epochs 0, 2 and the last one
    EXPECT_EQ(log[i].contains("test/mean_score"), is_evaluated) << i;
    EXPECT_EQ(log[i].contains("train_action_mse_error"), is_evaluated) << i;
  }
  EXPECT_EQ(log[0]["lr"], 0.0);
  EXPECT_DOUBLE_EQ(log[1]["lr"].get<double>(), 0.05 / 5);  // linear warm-up over 5 steps
}

TEST_F(WorkspaceTest, ResumedRunEqualsAnUnbrokenOneBitForBit) {
  const fs::path whole = scratch_.path() / "whole";
  Train(whole);
  for (const int n : {1, 17, 20, 33}) {
    const fs::path broken = scratch_.path() / ("stopped_at_" + std::to_string(n));
    const TrainReport first = TrainUntilLoss(n, broken);
    ASSERT_EQ(first.end, TrainEnd::kInterrupted);
    ASSERT_LT(first.global_step, 40);
    EXPECT_NE(DifferingFiles(whole, broken), "");
    const TrainReport second = Train(broken, R"("resume": true)");
    EXPECT_EQ(second.global_step, 40);
    EXPECT_EQ(DifferingFiles(whole, broken), "") << "stopped at loss " << n;
  }
}

// an evaluation may take minutes, so the preceding epoch must not be lost
TEST_F(WorkspaceTest, InterruptedEvaluationIsRepeatedAndTheRunEqualsAnUnbrokenOne) {
  const fs::path whole = scratch_.path() / "whole";
  Train(whole);
  for (const int epoch : {0, 2, 3}) {
    const fs::path broken = scratch_.path() / ("stopped_in_epoch_" + std::to_string(epoch));
    const auto evaluate = [epoch](Policy& policy, int now) -> std::optional<Scores> {
      if (now == epoch) return std::nullopt;
      return FakeEvaluate(policy, now);
    };
    const TrainReport first = Workspace(FakeParts(FakeConfig(), dataset_, broken)).Run(evaluate);
    ASSERT_EQ(first.end, TrainEnd::kInterrupted);
    EXPECT_EQ(first.epoch, epoch);
    EXPECT_EQ(LogOf(broken).size(), 10U * static_cast<std::size_t>(epoch) + 9U);
    Train(broken, R"("resume": true)");
    EXPECT_EQ(DifferingFiles(whole, broken), "") << "stopped in epoch " << epoch;
  }
}

TEST_F(WorkspaceTest, AbandonedRunGoesBackToItsCheckpointAndEqualsAnUnbrokenOne) {
  const fs::path whole = scratch_.path() / "whole";
  const fs::path broken = scratch_.path() / "broken";
  Train(whole);
  // 10 batches and 3 validation batches per epoch: it dies in epoch 1, after the checkpoint of
  // epoch 0
  const auto die = [](int n_losses) {
    if (n_losses == 18) throw Error(ErrorCode::kInternal, "power cut");
  };
  EXPECT_THROW(Train(broken, "", nullptr, die), Error);
  EXPECT_EQ(LogOf(broken).size(), 14U);
  Train(broken, R"("resume": true)");
  EXPECT_EQ(DifferingFiles(whole, broken), "");
}

TEST_F(WorkspaceTest, ResumesInsideAnAccumulationWindow) {
  const fs::path whole = scratch_.path() / "whole";
  const std::string training = R"("gradient_accumulate_every": 3)";
  Train(whole, training);
  // epoch 1 begins with loss 14: after one, two and three batches of its first window
  for (const int n : {14, 15, 16}) {
    const fs::path broken = scratch_.path() / ("stopped_at_" + std::to_string(n));
    EXPECT_EQ(TrainUntilLoss(n, broken, training).global_step, n - 3);
    const fs::path gradients = broken / "checkpoints" / "latest" / run::kGradientsFile;
    EXPECT_EQ(fs::exists(gradients), n != 16);
    Train(broken, training + R"(, "resume": true)");
    EXPECT_EQ(DifferingFiles(whole, broken), "") << "stopped at loss " << n;
  }
}

TEST_F(WorkspaceTest, RefusesAnotherWindowThanThatOfTheCheckpointInsideIt) {
  TrainUntilLoss(15, scratch_.path(), R"("gradient_accumulate_every": 3)");
  // after two of three batches: at the end of a window of 2, and inside one of 5
  for (const std::string window : {"2", "5"}) {
    const std::string key = "\"gradient_accumulate_every\": " + window;
    EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint,
                          [&] { Train(scratch_.path(), key + R"(, "resume": true)"); }),
                HasSubstr("training.gradient_accumulate_every " + window));
  }
}

TEST_F(WorkspaceTest, AnotherWindowOnResumeKeepsThePlaceInTheScheduleOfTheLearningRate) {
  const auto training = [](int window) {
    return R"("lr_scheduler": "constant_with_warmup", "gradient_accumulate_every": )" +
           std::to_string(window);
  };
  // after 15 batches, three updates of the 5 that warm up are done with windows of 5
  for (const auto& [before, after] : {std::pair(1, 5), {5, 1}}) {
    const fs::path run = scratch_.path() / std::to_string(before);
    TrainUntilLoss(18, run, training(before));  // half of epoch 1 is done
    Train(run, training(after) + R"(, "resume": true)");
    const auto log = LogOf(run);
    ASSERT_EQ(log.size(), 40U);
    EXPECT_NEAR(log[15]["lr"].get<double>(), after == 5 ? 0.03 : 0.05, 1e-9);
  }
}

TEST_F(WorkspaceTest, NumberOfLoaderThreadsChangesNothing) {
  for (const char* n : {"0", "3"}) {
    const Config config = Config::FromJson(
        std::string(R"({"training": {"num_epochs": 1}, "dataloader": {"num_workers": )") + n +
        "}}");
    Workspace(FakeParts(config, dataset_, scratch_.path() / n)).Run({});
  }
  EXPECT_EQ(DifferingFiles(scratch_.path() / "0", scratch_.path() / "3"),
            "checkpoints/latest/config.json checkpoints/latest/manifest.json ");
}

TEST_F(WorkspaceTest, KeepsTheBestCheckpointsAndTheLatest) {
  Train(scratch_.path());
  std::set<std::string> kinds;
  for (const std::string& name : NamesIn(scratch_.path() / "checkpoints")) {
    kinds.insert(name.substr(0, name.find('-')));
  }
  EXPECT_TRUE(kinds.contains("latest"));
  EXPECT_EQ(kinds.size(), 3U);  // latest and k = 2 of the epochs 0, 2, 3
}

TEST_F(WorkspaceTest, CheckpointRestoresThePolicyThatWasEvaluated) {
  Workspace workspace(FakeParts(FakeConfig(), dataset_, scratch_.path()));
  const TrainReport report = workspace.Run({});
  auto policy = MakeFakePolicy();
  const run::Checkpoint checkpoint = run::Checkpoint::Open(*report.latest);
  EXPECT_EQ(Config::FromJson(checkpoint.config()).Sub("training").Get<int>("num_epochs"), 4);
  planner::LoadPolicyWeights(checkpoint, *policy, planner::Weights::kEma);
  const TensorMap obs = {{"agent_pos", torch::ones({3, 2, 2})}};
  const std::vector<NoiseKey> rows = {{.seed = 1}, {.seed = 2}, {.seed = 3}};
  NoiseSource noise_a(rows);
  NoiseSource noise_b(rows);
  EXPECT_TRUE(torch::equal(policy->PredictAction(obs, noise_a),
                           workspace.eval_policy().PredictAction(obs, noise_b)));
}

TEST_F(WorkspaceTest, EmaWeightsDifferFromThoseOfTheModel) {
  const TrainReport report = Train(scratch_.path());
  const run::Checkpoint checkpoint = run::Checkpoint::Open(*report.latest);
  const auto model = checkpoint.ReadTensors(run::kModelFile).at("linear.weight");
  const auto ema = checkpoint.ReadTensors(run::kEmaFile).at("linear.weight");
  EXPECT_FALSE(std::ranges::equal(model.bytes(), ema.bytes()));
}

TEST_F(WorkspaceTest, LossThatIsNotFiniteNamesStepAndSamples) {
  WorkspaceParts parts = FakeParts(FakeConfig(), dataset_, scratch_.path());
  parts.create_policy = [] { return std::make_unique<FakePolicy>(NAN); };
  Workspace workspace(std::move(parts));
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { workspace.Run({}); }),
              testing::AllOf(HasSubstr("the loss is nan at epoch 0, global_step 0"),
                             testing::ContainsRegex("sequences \\[[0-9]+(, [0-9]+){6}\\]")));
}

TEST_F(WorkspaceTest, RefusesAFolderThatHoldsCheckpoints) {
  Train(scratch_.path());
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { Train(scratch_.path()); }), HasSubstr("--resume"));
}

TEST_F(WorkspaceTest, ResumeInAnEmptyFolderStartsAnew) {
  EXPECT_EQ(Train(scratch_.path(), R"("resume": true)").global_step, 40);
}

TEST_F(WorkspaceTest, ResumeOfAFinishedRunTrainsNoFurther) {
  Train(scratch_.path());
  const auto before = FilesBelow(scratch_.path());
  const TrainReport report = Train(scratch_.path(), R"("resume": true)");
  EXPECT_EQ(report.epoch, 4);
  EXPECT_TRUE(report.latest.has_value());
  EXPECT_EQ(FilesBelow(scratch_.path()), before);
}

TEST_F(WorkspaceTest, StopsWhenItsTimeIsOverAndCanGoOnLater) {
  double now = 0.0;
  WorkspaceParts parts = FakeParts(FakeConfig(R"("max_minutes": 0.2)"), dataset_, scratch_.path());
  parts.progress.now = [&now] { return now; };
  // each loss takes a second
  parts.create_policy = MakePoliciesThatCount([&now](int) { now += 1.0; });
  const TrainReport report = Workspace(std::move(parts)).Run({});
  EXPECT_EQ(report.end, TrainEnd::kOutOfTime);
  EXPECT_EQ(report.global_step, 10);  // ten batches and three that validate take 13 s
  const TrainReport again = Train(scratch_.path(), R"("max_minutes": 0.2, "resume": true)");
  EXPECT_EQ(again.end, TrainEnd::kOutOfTime);  // it had its 12 s
  EXPECT_EQ(again.global_step, 10);
  EXPECT_EQ(Train(scratch_.path(), R"("resume": true)").global_step, 40);
}

TEST_F(WorkspaceTest, ProgressLineShowsTheLastSuccessRate) {
  double now = 0.0;
  WorkspaceParts parts = FakeParts(FakeConfig(), dataset_, scratch_.path() / "run");
  const fs::path shown = scratch_.path() / "shown.txt";
  std::FILE* file = std::fopen(shown.c_str(), "w");
  ASSERT_NE(file, nullptr);
  parts.progress = {.file = file, .now = [&now] { return now += 11.0; }};
  Workspace(std::move(parts)).Run([](Policy&, int epoch) -> std::optional<Scores> {
    return Scores{{{"test/mean_score", 0.5}, {"test/success_rate", 0.25 * epoch}}};
  });
  std::fclose(file);
  std::ifstream lines(shown);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));  // of epoch 0, before any evaluation
  EXPECT_THAT(line, testing::Not(HasSubstr("success")));
  while (std::getline(lines, line)) {
    if (line.starts_with("epoch 3")) break;
  }
  EXPECT_THAT(line, HasSubstr("success 50 %"));  // that of epoch 2
}

TEST_F(WorkspaceTest, DebugModeRunsTwoEpochsOfThreeSteps) {
  const TrainReport report = Train(scratch_.path(), R"("debug": true)");
  EXPECT_EQ(report.global_step, 6);
  EXPECT_EQ(report.epoch, 2);
}

TEST_F(WorkspaceTest, UnavailableDeviceIsAnError) {
  for (const char* device : {"cuda:77", "toaster"}) {
    EXPECT_THROW(Train(scratch_.path(), std::string(R"("device": ")") + device + "\""), Error);
  }
}

TEST(PolicyWeights, ListEveryTensorThatDoesNotFit) {
  const auto policy = MakeFakePolicy();
  ArrayMap tensors = planner::ModuleState(policy->module());
  tensors.erase("linear.bias");
  tensors["linear.weight"] = Array(DType::kFloat32, {8, 5});
  tensors["foreign"] = Array(DType::kFloat32, {1});
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint,
                        [&] { planner::LoadModuleState(policy->module(), tensors, "here"); }),
              testing::AllOf(HasSubstr("linear.bias: missing, expected [8]"),
                             HasSubstr("expected float32 [8, 4], found float32 [8, 5]"),
                             HasSubstr("foreign: not part of the policy")));
}

}  // namespace
}  // namespace dp_bench::train
