// Continuing a training from a chosen checkpoint: the same files as an unbroken run, and everything
// later set aside.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "core/atomic_file.h"
#include "harness/train/workspace/fake_training.h"
#include "run/run_checkpoint.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"
#include "train/resume_point.h"
#include "train/train_state.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

/// 4 epochs of 10 batches; every epoch is kept, and those with the highest scores.
Config KeepingConfig(const std::string& training = "", const std::string& more = "") {
  return Config::FromJson(R"({"training": {"num_epochs": 4, "checkpoint_every": 1,
      "rollout_every": 1, "lr_warmup_steps": 5)" +
                          training + R"(}, "dataloader": {"batch_size": 7},
      "val_dataloader": {"batch_size": 5, "num_workers": 0},
      "dataset": {"val_ratio": 0.17, "seed": 1},
      "checkpoint": {"keep_every": 1, "topk": {"k": 2}})" +
                          more + "}");
}

constexpr const char* kContinue = R"(, "resume": true)";

TrainReport TrainRun(const fs::path& output, const Config& config) {
  const FakeDataset dataset;
  return Workspace(FakeParts(config, dataset, output)).Run(FakeEvaluate);
}

std::optional<fs::path> GoBack(const fs::path& run, const std::string& name) {
  return RewindRun(run, run::Checkpoint::Open(FindCheckpointOfRun(run, name)));
}

/// A run of KeepingConfig.
class RewindTest : public testing::Test {
 protected:
  RewindTest() { TrainRun(run_, KeepingConfig()); }

  const ScratchFolder scratch_;
  const fs::path run_ = scratch_.path() / "run";
};

/// Without what was set aside.
FolderContent RunFiles(const fs::path& run) {
  FolderContent files = FilesBelow(run);
  std::erase_if(files, [](const auto& file) { return file.first.starts_with(kSetAsideFolder); });
  return files;
}

std::string LogText(const fs::path& run) {
  return core::ReadTextFile(run / "logs.json.txt", 1U << 20);
}

TEST_F(RewindTest, TheContinuedRunEqualsAnUnbrokenOneAndTheOldEndIsSetAside) {
  const FolderContent whole = FilesBelow(run_);
  const auto aside = GoBack(run_, "epoch=0001");
  EXPECT_EQ(aside, run_ / "set_aside" / "1");
  EXPECT_EQ(FilesBelow(*aside).at("logs.json.txt"), whole.at("logs.json.txt"));
  EXPECT_TRUE(NamesIn(*aside / "checkpoints").contains("latest"));
  EXPECT_TRUE(NamesIn(*aside / "checkpoints").contains("epoch=0003"));
  EXPECT_FALSE(NamesIn(*aside / "checkpoints").contains("epoch=0001"));
  EXPECT_FALSE(NamesIn(run_ / "checkpoints").contains("epoch=0003"));
  // nothing is lost
  for (const auto& [name, content] : whole) {
    const FolderContent now = RunFiles(run_);
    const FolderContent old = FilesBelow(*aside);
    const bool is_there = (now.contains(name) && now.at(name) == content) ||
                          (old.contains(name) && old.at(name) == content);
    EXPECT_TRUE(is_there) << name;
  }

  EXPECT_EQ(TrainRun(run_, KeepingConfig(kContinue)).global_step, 40);
  EXPECT_EQ(DifferingFiles(RunFiles(run_), whole), "");
}

TEST_F(RewindTest, WhatWasSetAsideIsARunThatCanBeContinued) {
  const std::string log = LogText(run_);
  const auto aside = GoBack(run_, "epoch=0001");
  TrainRun(run_, KeepingConfig(kContinue));
  EXPECT_EQ(LogText(*aside), log);
  const Config longer = Changed(KeepingConfig(kContinue), {{"training", {{"num_epochs", 5}}}});
  EXPECT_EQ(TrainRun(*aside, longer).global_step, 50);
}

TEST_F(RewindTest, ASecondOneGetsTheNextNumberAndToTheSameCheckpointChangesNothing) {
  EXPECT_EQ(GoBack(run_, "epoch=0002"), run_ / "set_aside" / "1");
  EXPECT_EQ(GoBack(run_, "epoch=0000"), run_ / "set_aside" / "2");
  const FolderContent before = FilesBelow(run_);
  EXPECT_EQ(GoBack(run_, "epoch=0000"), std::nullopt);
  EXPECT_EQ(DifferingFiles(FilesBelow(run_), before), "");
}

TEST_F(RewindTest, OfTheLatestCheckpointSetsNothingAside) {
  const FolderContent before = FilesBelow(run_);
  for (const char* name : {"latest", "epoch=0003"}) {
    EXPECT_EQ(GoBack(run_, name), std::nullopt) << name;
    EXPECT_EQ(DifferingFiles(FilesBelow(run_), before), "") << name;
  }
}

TEST_F(RewindTest, TheEvaluationOfTheOldEndGoesAsideToo) {
  for (const char* name : {"episodes.jsonl", "eval_log.json", "report.html", "config.json",
                           "manifest.json", "media/test_100000.mp4", "notes.txt"}) {
    fs::create_directories((run_ / name).parent_path());
    std::ofstream(run_ / name) << "{}";
  }
  const auto aside = GoBack(run_, "epoch=0000");
  for (const char* name :
       {"episodes.jsonl", "eval_log.json", "report.html", "media/test_100000.mp4"}) {
    EXPECT_TRUE(fs::exists(*aside / name)) << name;
    EXPECT_FALSE(fs::exists(run_ / name)) << name;
  }
  for (const char* name : {"config.json", "manifest.json"}) {
    EXPECT_TRUE(fs::exists(*aside / name)) << name;
    EXPECT_TRUE(fs::exists(run_ / name)) << name;
  }
  EXPECT_TRUE(fs::exists(run_ / "notes.txt"));
}

TEST_F(RewindTest, ACheckpointIsNamedByNameBeginningOrPath) {
  const fs::path checkpoints = run_ / "checkpoints";
  EXPECT_EQ(FindCheckpointOfRun(run_, "latest"), checkpoints / "latest");
  EXPECT_EQ(FindCheckpointOfRun(run_, "lat"), checkpoints / "latest");
  EXPECT_EQ(FindCheckpointOfRun(run_, "epoch=0001"), checkpoints / "epoch=0001");
  const std::string path = (checkpoints / "epoch=0002").string();
  EXPECT_EQ(FindCheckpointOfRun(run_, path), path);
  const auto error_of = [&](const std::string& name) {
    return MessageOf(ErrorCode::kUsage, [&] { FindCheckpointOfRun(run_, name); });
  };
  EXPECT_THAT(error_of("epoch=00"), AllOf(HasSubstr("expected the name of one checkpoint"),
                                          HasSubstr("epoch=0000, epoch=0000-test")));
  EXPECT_THAT(error_of("best"), HasSubstr("--checkpoint best: "));
  EXPECT_THAT(error_of("./none"), HasSubstr("this folder is no checkpoint"));
}

TEST(Rewind, ACheckpointOfALongerRunIsRefused) {
  const ScratchFolder scratch;
  TrainRun(scratch.path() / "long", KeepingConfig());
  TrainRun(scratch.path() / "short", KeepingConfig(R"(, "max_train_steps": 2)"));
  const auto chosen = run::Checkpoint::Open(scratch.path() / "long/checkpoints/latest");
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { RewindRun(scratch.path() / "short", chosen); }),
              HasSubstr("is no checkpoint of this run"));
}

TEST_F(RewindTest, ACopyContinuesFromTheChosenCheckpointAndTheSourceStays) {
  const fs::path copy = scratch_.path() / "copy";
  const FolderContent before = FilesBelow(run_);
  CreateFromSnapshot(run_, copy, FindCheckpointOfRun(run_, "epoch=0001"));
  EXPECT_EQ(TrainRun(copy, KeepingConfig(kContinue)).global_step, 40);
  EXPECT_EQ(DifferingFiles(FilesBelow(run_), before), "");
  EXPECT_EQ(LogText(copy), LogText(run_));
  EXPECT_EQ(FilesBelow(copy).at("checkpoints/latest/model.safetensors"),
            before.at("checkpoints/latest/model.safetensors"));
}

/// A training that calls `on_evaluation` in each of its evaluations.
void TrainAndCall(const fs::path& output, const Config& config,
                  const std::function<void(Workspace&, int epoch)>& on_evaluation) {
  const FakeDataset dataset;
  Workspace workspace(FakeParts(config, dataset, output));
  workspace.Run([&](Policy& policy, int epoch) {
    on_evaluation(workspace, epoch);
    return FakeEvaluate(policy, epoch);
  });
}

TEST(SaveCheckpoint, WritesUnderATagOrAtAPathFromWhichTheRunContinues) {
  const ScratchFolder scratch;
  const fs::path run = scratch.path() / "run";
  const fs::path elsewhere = scratch.path() / "elsewhere" / "second";
  TrainAndCall(run, KeepingConfig(), [&](Workspace& workspace, int epoch) {
    if (epoch == 1) {
      EXPECT_EQ(workspace.SaveCheckpoint("", "mine"), run / "checkpoints" / "mine");
    }
    if (epoch == 2) {
      EXPECT_EQ(workspace.SaveCheckpoint(elsewhere / ""), elsewhere);
    }
  });
  TrainRun(scratch.path() / "plain", KeepingConfig());
  FolderContent whole = FilesBelow(scratch.path() / "plain");
  for (const std::string& name : {std::string("mine"), elsewhere.string()}) {
    GoBack(run, name);
    TrainRun(run, KeepingConfig(kContinue));
    FolderContent now = RunFiles(run);
    std::erase_if(now,
                  [](const auto& file) { return file.first.starts_with("checkpoints/mine/"); });
    EXPECT_EQ(DifferingFiles(now, whole), "") << name;
  }
}

TEST(SaveCheckpoint, RefusesTagsAndFoldersThatAreNone) {
  const ScratchFolder scratch;
  fs::create_directories(scratch.path() / "data");
  std::ofstream(scratch.path() / "data" / "important.txt") << "1";
  TrainAndCall(scratch.path() / "run", KeepingConfig(R"(, "max_train_steps": 1)"),
               [&](Workspace& workspace, int /*epoch*/) {
                 for (const char* tag : {"", "a/b", ".x", "latest.old", "epoch=0001"}) {
                   EXPECT_EQ(CodeOf([&] { workspace.SaveCheckpoint("", tag); }), ErrorCode::kConfig)
                       << tag;
                 }
                 EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                                       [&] { workspace.SaveCheckpoint(scratch.path() / "data"); }),
                             HasSubstr("exists and is no checkpoint"));
               });
  EXPECT_TRUE(fs::exists(scratch.path() / "data" / "important.txt"));
}

TEST(SaveCheckpoint, AFolderThatItMayNotReplaceIsRefusedBeforeTheTraining) {
  const ScratchFolder scratch;
  const fs::path data = scratch.path() / "data";
  fs::create_directories(data);
  nlohmann::json config = nlohmann::json::parse(KeepingConfig().ToJson());
  const nlohmann::json save = {{"epoch", 3}, {"path", data.string()}};
  config["checkpoint"]["save_at"] = {save};
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] { TrainRun(scratch.path() / "run", Config::FromJson(config.dump())); }),
              AllOf(HasSubstr(data.string()), HasSubstr("exists and is no checkpoint")));
  EXPECT_FALSE(fs::exists(scratch.path() / "run"));
}

TEST(SaveCheckpoint, TheConfigAsksForThemAfterAnEpoch) {
  const ScratchFolder scratch;
  const fs::path run = scratch.path() / "run";
  const fs::path there = scratch.path() / "there";
  nlohmann::json config = nlohmann::json::parse(KeepingConfig().ToJson());
  config["checkpoint"]["save_at"] = {{{"epoch", 1}, {"tag", "second"}},
                                     {{"epoch", 2}, {"path", there.string()}}};
  config["checkpoint"]["exclude_keys"] = {"optimizer"};
  TrainRun(run, Config::FromJson(config.dump()));
  EXPECT_EQ(FilesBelow(run / "checkpoints/second").at("model.safetensors"),
            FilesBelow(run / "checkpoints/epoch=0001").at("model.safetensors"));
  const run::Checkpoint checkpoint = run::Checkpoint::Open(there);
  EXPECT_EQ(TrainState::FromJson(checkpoint.state(), "there").global_step, 30);
  EXPECT_FALSE(checkpoint.Has(run::kOptimizerFile));
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint, [&] { RequireResumable(checkpoint, true); }),
              HasSubstr("it was saved without optimizer"));

  const auto error_of = [&](const nlohmann::json& save_at) {
    config["checkpoint"]["save_at"] = {save_at};
    return MessageOf(ErrorCode::kConfig, [&] {
      CheckpointConfig::FromConfig(Config::FromJson(config.dump()).Sub("checkpoint"));
    });
  };
  EXPECT_THAT(error_of({{"epoch", 1}}), HasSubstr("expected either a tag or a path, found none"));
  EXPECT_THAT(error_of({{"tag", "a"}, {"path", "b"}}), HasSubstr("found both"));
  EXPECT_THAT(error_of({{"tag", "a/b"}}), HasSubstr("save_at.0.tag"));
}

/// Every optimizer: a training that was stopped inside an epoch, and one that goes back.
TEST(Rewind, EveryOptimizerContinuesBitForBit) {
  for (const std::string optimizer :
       {R"({"name": "adamw", "lr": 0.05})", R"({"name": "adam", "lr": 0.05, "weight_decay": 0.01})",
        R"({"name": "sgd", "lr": 0.05, "weight_decay": 0.01})",
        R"({"name": "sgd", "lr": 0.05, "momentum": 0})",
        R"({"name": "sgd", "lr": 0.02, "nesterov": true,
            "param_groups": [{"pattern": "bias", "lr_scale": 0.1}]})"}) {
    const ScratchFolder scratch;
    const std::string section = R"(, "optimizer": )" + optimizer;
    const fs::path whole = scratch.path() / "whole";
    TrainRun(whole, KeepingConfig("", section));
    const FolderContent files = FilesBelow(whole);

    const fs::path broken = scratch.path() / "broken";
    std::atomic<bool> stop = false;
    const FakeDataset dataset;
    WorkspaceParts parts = FakeParts(KeepingConfig("", section), dataset, broken);
    parts.stop = &stop;
    parts.create_policy = MakePoliciesThatCount([&](int n) { stop = stop || n == 17; });
    EXPECT_EQ(Workspace(std::move(parts)).Run(FakeEvaluate).end, TrainEnd::kInterrupted);
    TrainRun(broken, KeepingConfig(kContinue, section));
    EXPECT_EQ(DifferingFiles(FilesBelow(broken), files), "") << optimizer;

    GoBack(whole, "epoch=0001");
    TrainRun(whole, KeepingConfig(kContinue, section));
    EXPECT_EQ(DifferingFiles(RunFiles(whole), files), "") << optimizer;
  }
}

}  // namespace
}  // namespace dp_bench::train
