// The checkpoint for the path of a run, and the run of a checkpoint.
#include "run/run_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RunCheckpointTest : public testing::Test {
 protected:
  fs::path AddCheckpoint(const std::string& name) const {
    const fs::path folder = run_ / "checkpoints" / name;
    fs::create_directories(folder);
    std::ofstream(folder / "manifest.json") << "{}";
    std::ofstream(folder / "ema.safetensors") << "x";
    return folder;
  }
  void SetRanking(const std::string& topk) const {
    std::ofstream(run_ / "config.json") << R"({"checkpoint": {"topk": )" << topk << "}}";
  }
  std::string Found(CheckpointOrder order = CheckpointOrder::kBestFirst) const {
    return FindCheckpoint(run_, order).folder.filename().string();
  }

  ScratchFolder scratch_;
  const fs::path run_ = scratch_.path() / "run";
};

TEST_F(RunCheckpointTest, ARunStandsForItsBestElseItsLatest) {
  AddCheckpoint("latest");
  AddCheckpoint("epoch=0007");  // kept, not ranked
  EXPECT_EQ(Found(), "latest");
  AddCheckpoint("epoch=0001-test_mean_score=0.500");
  AddCheckpoint("epoch=0002-test_mean_score=0.900");
  AddCheckpoint("epoch=0003-test_mean_score=0.900");
  AddCheckpoint("epoch=0004-test_mean_score=0.100");
  EXPECT_EQ(Found(), "epoch=0003-test_mean_score=0.900");
  EXPECT_EQ(FindCheckpoint(run_).reason, "the best of 4 by test_mean_score");
  EXPECT_EQ(FindCheckpoint(run_ / "checkpoints").folder.filename(),
            "epoch=0003-test_mean_score=0.900");
  EXPECT_EQ(Found(CheckpointOrder::kLatestFirst), "latest");
}

TEST_F(RunCheckpointTest, TheBestIsFoundByAllDigitsOfItsMetric) {
  const auto add = [this](const std::string& name, const std::string& value) {
    std::ofstream(AddCheckpoint(name) / "state.json")
        << R"({"topk": {"epoch=0000-val_loss=0.900": 0.9, ")" << name << "\": " << value << "}}";
  };
  add("epoch=0001-val_loss=0.024", "0.0236");
  add("epoch=0002-val_loss=0.024", "0.0244");
  SetRanking(R"({"monitor_key": "val_loss", "mode": "min"})");
  EXPECT_EQ(Found(), "epoch=0001-val_loss=0.024");
  AddCheckpoint("epoch=0003-val_loss=0.023");  // without a state, its name counts
  EXPECT_EQ(Found(), "epoch=0003-val_loss=0.023");
}

TEST_F(RunCheckpointTest, EpochsAreInTheOrderOfTheirNumbers) {
  AddCheckpoint("epoch=9950-test_mean_score=1.000");
  AddCheckpoint("epoch=10050-test_mean_score=1.000");
  EXPECT_EQ(Found(), "epoch=10050-test_mean_score=1.000");
}

TEST_F(RunCheckpointTest, TheBestIsThatOfItsConfig) {
  AddCheckpoint("epoch=0001-val_loss=0.500");
  AddCheckpoint("epoch=0002-val_loss=0.200");
  SetRanking(R"({"monitor_key": "val/loss", "mode": "min"})");
  EXPECT_EQ(Found(), "epoch=0002-val_loss=0.200");
  SetRanking(R"({"monitor_key": "val_loss", "mode": "max"})");
  EXPECT_EQ(Found(), "epoch=0001-val_loss=0.500");
}

TEST_F(RunCheckpointTest, ACheckpointStandsForItselfAndForItsRun) {
  const fs::path latest = AddCheckpoint("latest");
  EXPECT_EQ(FindCheckpoint(latest).folder, latest);
  EXPECT_EQ(FindCheckpoint(latest).reason, "");
  EXPECT_EQ(FindRunOf(latest), run_);
  EXPECT_EQ(FindRunOf(latest / ""), run_);
  EXPECT_EQ(FindRunOf(run_), run_);
}

TEST_F(RunCheckpointTest, AnEvaluationStandsForTheCheckpointThatItRolledOut) {
  fs::create_directories(run_);
  std::ofstream(run_ / "manifest.json") << R"({"checkpoint": {"folder": "/models/x"}})";
  EXPECT_EQ(FindCheckpoint(run_).folder, "/models/x");
}

TEST_F(RunCheckpointTest, WhatHasNoneSaysWhatToGive) {
  fs::create_directories(run_ / "seed_42" / "checkpoints");
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FindCheckpoint(run_); }),
              AllOf(HasSubstr("several seeds"), HasSubstr("seed_42")));
  fs::remove_all(run_ / "seed_42");
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint, [&] { FindCheckpoint(run_); }),
              HasSubstr("neither a checkpoint"));
}

}  // namespace
}  // namespace dp_bench::run
