// Which folders a training can be resumed in, and that a refused resume changes nothing.
#include "train/resume_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "harness/train/workspace/fake_training.h"
#include "run/checkpoint.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ResumePointTest : public testing::Test {
 protected:
  ResumePointTest() {
    Train("");
    std::ofstream(run_ / "config.json") << "{}";
  }

  TrainReport Train(const std::string& training) {
    const FakeDataset dataset;
    return Workspace(FakeParts(FakeConfig(training), dataset, run_)).Run({});
  }

  // The message of `call`, which must leave every file as it was.
  std::string Refusal(ErrorCode code, const std::function<void()>& call) const {
    const FolderContent before = FilesBelow(scratch_.path());
    std::string message = MessageOf(code, call);
    EXPECT_EQ(DifferingFiles(FilesBelow(scratch_.path()), before), "");
    return message;
  }

  const ScratchFolder scratch_;
  const fs::path run_ = scratch_.path() / "run";
  const fs::path latest_ = run_ / "checkpoints" / "latest";
};

TEST_F(ResumePointTest, ARunsPathMeansItsLatestCheckpoint) {
  for (const fs::path& path : {run_, run_ / "checkpoints", run_ / "checkpoints" / ""}) {
    const ResumePoint point = FindResumePoint(path, "");
    EXPECT_TRUE(fs::equivalent(point.run_folder, run_)) << path;
    EXPECT_EQ(point.checkpoint, "") << path;
  }
  EXPECT_EQ(FindResumePoint(run_, "latest").checkpoint, latest_);
}

TEST_F(ResumePointTest, ACheckpointsPathMeansItsRunAlsoThroughLinks) {
  fs::create_directory_symlink(latest_, scratch_.path() / "link");
  fs::create_directory_symlink(run_, scratch_.path() / "run_link");
  for (const fs::path& path : {latest_, latest_ / "", latest_ / "." / "", scratch_.path() / "link",
                               scratch_.path() / "run_link/checkpoints/latest"}) {
    const ResumePoint point = FindResumePoint(path, "");
    EXPECT_TRUE(fs::equivalent(point.run_folder, run_)) << path;
    EXPECT_EQ(point.checkpoint, path) << path;
  }
}

TEST_F(ResumePointTest, TheCheckpointsOfARunMayBeALinkToAnotherDisk) {
  fs::rename(run_ / "checkpoints", scratch_.path() / "disk");
  fs::create_directory_symlink(scratch_.path() / "disk", run_ / "checkpoints");
  EXPECT_TRUE(fs::equivalent(FindResumePoint(latest_, "").run_folder, run_));
}

TEST_F(ResumePointTest, APolicyOutsideOfARunIsRefused) {
  const fs::path alone = scratch_.path() / "models" / "shipped";
  fs::create_directories(alone);
  fs::copy(latest_, alone);
  const auto refusal = [&](const fs::path& path) {
    return Refusal(ErrorCode::kUsage, [&] { FindResumePoint(path, ""); });
  };
  EXPECT_THAT(refusal(alone), HasSubstr("is a policy outside of a run"));
  fs::create_directory_symlink(alone, scratch_.path() / "link");
  EXPECT_THAT(refusal(scratch_.path() / "link"), HasSubstr("is a policy outside of a run"));
  // a folder that is only named like that of a run's checkpoints
  fs::rename(scratch_.path() / "models", scratch_.path() / "checkpoints");
  EXPECT_THAT(refusal(scratch_.path() / "checkpoints/shipped"), HasSubstr("has no config.json"));
}

TEST_F(ResumePointTest, AnEvaluationAndAFolderWithoutARunAreRefused) {
  const fs::path folder = scratch_.path() / "other";
  fs::create_directories(folder);
  const auto refusal = [&] {
    return Refusal(ErrorCode::kUsage, [&] { FindResumePoint(folder, ""); });
  };
  EXPECT_THAT(refusal(), HasSubstr("has no config.json"));
  std::ofstream(folder / "config.json") << "{}";
  std::ofstream(folder / "manifest.json")
      << R"({"checkpoint": {"folder": "x", "weights": "ema"}, "plugins": []})";
  EXPECT_THAT(refusal(), HasSubstr("dp_bench eval --resume"));
}

TEST_F(ResumePointTest, ARunWithoutItsCheckpointsIsRefused) {
  fs::remove_all(latest_);
  const auto find = [this] { FindResumePoint(run_, ""); };
  EXPECT_THAT(Refusal(ErrorCode::kCheckpoint, find), HasSubstr("there is no checkpoint"));
  const auto train = [this] { Train(R"("resume": true)"); };
  EXPECT_THAT(Refusal(ErrorCode::kCheckpoint, train), HasSubstr("there is no checkpoint"));
  fs::remove_all(run_ / "checkpoints");
  EXPECT_THAT(Refusal(ErrorCode::kCheckpoint, find), HasSubstr("there is no checkpoint"));
  EXPECT_THAT(Refusal(ErrorCode::kCheckpoint, train), HasSubstr("there is no checkpoint"));
}

TEST_F(ResumePointTest, ARunWithCheckpointsOfOtherNamesOnlyNeedsAChoice) {
  fs::rename(latest_, run_ / "checkpoints" / "mine");
  EXPECT_EQ(FindResumePoint(run_, "mine").checkpoint, run_ / "checkpoints" / "mine");
  EXPECT_THAT(Refusal(ErrorCode::kCheckpoint, [this] { Train(R"("resume": true)"); }),
              HasSubstr("choose one with --checkpoint"));
}

TEST_F(ResumePointTest, ARunKilledBeforeItsFirstCheckpointStartsAnew) {
  fs::remove_all(run_ / "checkpoints");
  run::CheckpointStore(run_ / "checkpoints").BeginEmpty();  // what its start leaves
  EXPECT_EQ(FindResumePoint(run_, "").checkpoint, "");
  EXPECT_EQ(Train(R"("resume": true)").global_step, 40);
  EXPECT_FALSE(run::CheckpointStore(run_ / "checkpoints").IsBegunEmpty());
}

TEST_F(ResumePointTest, TwoCheckpointsAtOnceAndWhatACrashLeftAreRefused) {
  EXPECT_THAT(Refusal(ErrorCode::kUsage, [&] { FindResumePoint(latest_, "latest"); }),
              HasSubstr("name two checkpoints"));
  fs::rename(latest_, run_ / "checkpoints/latest.old");
  EXPECT_THAT(
      Refusal(ErrorCode::kUsage, [&] { FindResumePoint(run_ / "checkpoints/latest.old", ""); }),
      HasSubstr("was left by a crash"));
}

TEST_F(ResumePointTest, AResumeThatDoesNotFitChangesNoFile) {
  const auto resume = [&](const fs::path& from, const std::string& optimizer) {
    const FakeDataset dataset;
    const Config config =
        Changed(FakeConfig(R"("resume": true)"), {{"optimizer", {{"name", optimizer}}}});
    WorkspaceParts parts = FakeParts(config, dataset, run_);
    parts.resume_from = from;
    Workspace(std::move(parts)).Run({});
  };
  fs::rename(latest_, run_ / "checkpoints/latest.old");            // a repair would rename it
  std::ofstream(run_ / "logs.json.txt", std::ios::app) << "{}\n";  // the log would be cut
  EXPECT_THAT(Refusal(ErrorCode::kCheckpoint, [&] { resume("", "sgd"); }),
              HasSubstr("of another optimizer"));
  fs::rename(run_ / "checkpoints/latest.old", latest_);
  fs::remove(run_ / "logs.json.txt");
  EXPECT_THAT(Refusal(ErrorCode::kUsage, [&] { resume(latest_, "adamw"); }),
              HasSubstr("is no checkpoint of this run"));
  fs::resize_file(latest_ / "optimizer.safetensors", 100);
  EXPECT_THAT(Refusal(ErrorCode::kCheckpoint, [&] { resume("", "adamw"); }),
              HasSubstr("optimizer.safetensors"));
}

TEST(RequireSameTraining, FreeKeysMayChangeAndTheOthersAreNamedWithBothValues) {
  const nlohmann::json before = nlohmann::json::parse(R"({
    "horizon": 16, "optimizer": {"lr": 1e-4}, "dataset": {"params": {"path": "a.zarr"}},
    "training": {"num_epochs": 4, "lr_warmup_steps": 5, "seed": 42, "early_stop": null}})");
  const auto resume_with = [&](const char* changes) {
    nlohmann::json now = before;
    now.merge_patch(nlohmann::json::parse(changes));
    RequireSameTraining(before, now);
  };
  EXPECT_NO_THROW(resume_with(R"({"optimizer": {"lr": 1e-5}, "dataset": {"params": {"path": "b"}},
      "training": {"num_epochs": 8, "lr_warmup_steps": 0, "early_stop": {"patience": 3}},
      "logging": {"every": 1}, "dataloader": {"num_workers": 2}, "horizon": 16.0})"));
  const std::string message = MessageOf(ErrorCode::kUsage, [&] {
    resume_with(R"({"horizon": 24, "training": {"seed": 7, "num_epochs": 9, "max_train_steps": 3},
        "shape_meta": {"obs": {"goal": {"shape": [2]}}}})");
  });
  for (const char* line : {"\n  horizon: 16, not 24\n", "\n  training.seed: 42, not 7\n",
                           "\n  training.max_train_steps: null, not 3\n",
                           "\n  shape_meta.obs.goal.shape: null, not [2]\n"}) {
    EXPECT_THAT(message, HasSubstr(line));
  }
  EXPECT_THAT(message, testing::Not(HasSubstr("num_epochs")));
}

TEST(RequireSameTraining, WhatSamplesAreRolledForwardByMayNotChange) {
  const auto change = [](int max_roll_forward) {
    nlohmann::json before = {{"training", {{"max_roll_forward", max_roll_forward}}}};
    before["env_runner"]["chunking"]["followed_actions"] = {{"agent_pos", {0, 1}}};
    nlohmann::json now = before;
    now["env_runner"]["chunking"]["followed_actions"]["agent_pos"] = {1, 0};
    RequireSameTraining(before, now);
  };
  EXPECT_NO_THROW(change(0)) << "only rollouts use it";
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { change(4); }),
              HasSubstr("\n  env_runner.chunking.followed_actions"));
}

TEST_F(ResumePointTest, AnotherNumberOfBatchesInAnEpochIsRefused) {
  const Config config =  // as a dataset that has grown or shrunk
      Changed(FakeConfig(R"("resume": true)"), {{"dataloader", {{"batch_size", 8}}}});
  const FakeDataset dataset;
  EXPECT_THAT(
      Refusal(ErrorCode::kCheckpoint, [&] { Workspace(FakeParts(config, dataset, run_)).Run({}); }),
      testing::AllOf(HasSubstr("was saved at step 40"), HasSubstr("the dataset changed")));
}

// With as many steps and other actions.
TEST_F(ResumePointTest, AnotherDatasetIsRefused) {
  class OtherDataset : public FakeDataset {
    void DoRead(int key, std::int64_t begin, std::int64_t end,
                std::span<std::byte> out) const override {
      FakeDataset::DoRead(key, begin, end, out);
      if (begin == 0) out.front() ^= std::byte{1};
    }
  };
  const OtherDataset dataset;
  EXPECT_THAT(Refusal(ErrorCode::kCheckpoint,
                      [&] {
                        const Config config = FakeConfig(R"("resume": true)");
                        Workspace(FakeParts(config, dataset, run_)).Run({});
                      }),
              HasSubstr("was trained on another dataset"));
}

}  // namespace
}  // namespace dp_bench::train
