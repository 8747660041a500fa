// Trainings that continue while their checkpoints are written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <semaphore>
#include <string>

#include "harness/train/workspace/fake_training.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"
#include "train/workspace.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kNumSteps = 4;                         // of the store, for one checkpoint
constexpr auto kMaxWait = std::chrono::seconds(60);  // after that a test fails instead of hanging

/// What happens at the n-th loss, training and validation together, and at the n-th step of the
/// store; an epoch has 13 losses, and those of epoch 0, 2 and 3 save two checkpoints.
struct SaveHooks {
  std::function<void(int n)> on_loss = {};
  std::function<void(int n)> on_store_step = {};
  const std::atomic<bool>* stop = nullptr;
};

TrainReport TrainWithHooks(const fs::path& output, const SaveHooks& hooks,
                           bool is_background = true, bool is_resumed = false) {
  const FakeDataset dataset;
  const Config config = Config::FromJson(
      R"({"training": {"num_epochs": 4, "rollout_every": 2, "checkpoint_every": 2, "resume": )" +
      std::string(is_resumed ? "true" : "false") +
      R"(}, "optimizer": {"lr": 0.05}, "dataloader": {"batch_size": 7},
      "val_dataloader": {"batch_size": 5, "num_workers": 0},
      "dataset": {"val_ratio": 0.17, "seed": 1},
      "checkpoint": {"topk": {"k": 1}, "background": )" +
      (is_background ? "true" : "false") + "}}");
  WorkspaceParts parts = FakeParts(config, dataset, output);
  int n_store_steps = 0;
  parts.stop = hooks.stop;
  parts.after_store_step = [&](int) {
    ++n_store_steps;
    if (hooks.on_store_step) hooks.on_store_step(n_store_steps);
  };
  parts.create_policy = MakePoliciesThatCount(hooks.on_loss);
  const auto improve = [](Policy& /*policy*/, int epoch) -> Scores {
    return {.metrics = {{"test/mean_score",
                         epoch}}};  // every one the best so far, which replaces the other
  };
  return Workspace(std::move(parts)).Run(improve);
}

/// Releases the waiting save once the training has reached a certain loss.
struct HeldSave {
  explicit HeldSave(int until_loss) : loss(until_loss) {}

  SaveHooks hooks() {
    return {.on_loss =
                [this](int n) {
                  if (n == loss) go_on.release();
                },
            .on_store_step =
                [this](int n) {
                  if (n == 1) Wait();
                }};
  }

  void Wait() { EXPECT_TRUE(go_on.try_acquire_for(kMaxWait)) << "the training waits for the disk"; }

  int loss;
  std::binary_semaphore go_on{0};
};

/// Without the configs, which record how they were written, and the files with their checksums.
FolderContent WithoutConfigs(const fs::path& run) {
  FolderContent files = FilesBelow(run);
  std::erase_if(files, [](const auto& item) {
    return item.first.ends_with("config.json") || item.first.ends_with("manifest.json");
  });
  return files;
}

TEST(BackgroundSave, TrainingGoesOnMeanwhileAndTheFilesAreThoseOfATrainingThatWaits) {
  const ScratchFolder scratch;
  TrainWithHooks(scratch.path() / "waits", {}, /*is_background=*/false);
  const FolderContent wanted = WithoutConfigs(scratch.path() / "waits");
  ASSERT_EQ(wanted.count("checkpoints/latest/optimizer.safetensors"), 1U);

  // the checkpoint of epoch 0 is written when epoch 2 has begun, with all weights changed in place
  HeldSave held(30);
  TrainWithHooks(scratch.path() / "goes_on", held.hooks());
  EXPECT_EQ(DifferingFiles(wanted, WithoutConfigs(scratch.path() / "goes_on")), "");
}

TEST(BackgroundSave, ItsFaultEndsTheTrainingAndTheCheckpointBeforeIsKept) {
  const ScratchFolder scratch;
  const fs::path broken = scratch.path() / "broken";
  TrainWithHooks(scratch.path() / "whole", {});
  // `latest` of epoch 2
  const auto fail = [](int n) {
    if (n == 3 * kNumSteps + 1) throw Error(ErrorCode::kIo, "no space left");
  };
  int n_losses = 0;
  const auto train = [&] {
    TrainWithHooks(broken, {.on_loss = [&](int n) { n_losses = n; }, .on_store_step = fail});
  };
  EXPECT_THAT(
      MessageOf(ErrorCode::kIo, train),
      testing::AllOf(HasSubstr("no space left"), HasSubstr("while a checkpoint was saved")));
  EXPECT_GE(n_losses, 3 * 13);
  EXPECT_EQ(LatestState(broken).epoch, 1);
  TrainWithHooks(broken, {}, /*is_background=*/true, /*is_resumed=*/true);
  EXPECT_EQ(DifferingFiles(scratch.path() / "whole", broken), "");
}

TEST(BackgroundSave, FaultOfTheLastOneIsThrownAtTheEnd) {
  const ScratchFolder scratch;
  const auto fail = [](int n) {
    if (n == 5 * kNumSteps + 1) throw Error(ErrorCode::kIo, "no space left");
  };
  EXPECT_EQ(CodeOf([&] { TrainWithHooks(scratch.path(), {.on_store_step = fail}); }),
            ErrorCode::kIo);
  EXPECT_EQ(LatestState(scratch.path()).epoch, 3);
}

TEST(BackgroundSave, TrainingThatFailsMeanwhileThrowsWhenTheCheckpointIsComplete) {
  const ScratchFolder scratch;
  HeldSave held(15);
  SaveHooks hooks = held.hooks();
  hooks.on_loss = [release = hooks.on_loss](int n) {
    release(n);
    if (n == 15) throw Error(ErrorCode::kNumeric, "not finite");
  };
  EXPECT_EQ(CodeOf([&] { TrainWithHooks(scratch.path(), hooks); }), ErrorCode::kNumeric);
  EXPECT_EQ(LatestState(scratch.path()).epoch, 1);
}

TEST(BackgroundSave, ItsFaultIsAWarningWhenTheTrainingFailsTooBeforeItWasTold) {
  const ScratchFolder scratch;
  HeldSave held(14);  // the first after the save: no step looks for a fault before
  SaveHooks hooks = held.hooks();
  hooks.on_store_step = [wait = hooks.on_store_step](int n) {
    wait(n);
    throw Error(ErrorCode::kIo, "no space left");
  };
  hooks.on_loss = [release = hooks.on_loss](int n) {
    release(n);
    if (n == 14) throw Error(ErrorCode::kNumeric, "not finite");
  };
  testing::internal::CaptureStderr();
  EXPECT_EQ(CodeOf([&] { TrainWithHooks(scratch.path(), hooks); }), ErrorCode::kNumeric);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("no space left"));
}

TEST(BackgroundSave, InterruptionMeanwhileLeavesTheLatestThatTheReportNames) {
  const ScratchFolder scratch;
  const fs::path broken = scratch.path() / "broken";
  TrainWithHooks(scratch.path() / "whole", {});
  HeldSave held(16);
  SaveHooks hooks = held.hooks();
  std::atomic<bool> stop = false;
  hooks.stop = &stop;
  hooks.on_loss = [&, release = hooks.on_loss](int n) {
    release(n);
    stop = n == 16;
  };
  const TrainReport report = TrainWithHooks(broken, hooks);
  EXPECT_EQ(report.end, TrainEnd::kInterrupted);
  EXPECT_EQ(report.latest, broken / "checkpoints" / "latest");
  EXPECT_EQ(LatestState(broken).global_step, report.global_step);
  EXPECT_EQ(report.global_step, 13);  // ten of epoch 0 and three of epoch 1
  TrainWithHooks(broken, {}, /*is_background=*/true, /*is_resumed=*/true);
  EXPECT_EQ(DifferingFiles(scratch.path() / "whole", broken), "");
}

}  // namespace
}  // namespace dp_bench::train
