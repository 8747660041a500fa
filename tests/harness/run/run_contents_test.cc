// Folders into which a run may be written, and which files of an old evaluation are removed.
#include "run/run_contents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::run {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class RunContentsTest : public testing::Test {
 protected:
  void Add(const std::string& file, const std::string& text = "x") const {
    fs::create_directories((run_ / file).parent_path());
    std::ofstream(run_ / file) << text;
  }
  void AddEvaluation(const std::string& below = "") const {
    Add(below + "manifest.json", R"({"plugins": [], "checkpoint": {"folder": "c"}})");
    for (const char* file :
         {"config.json", "episodes.jsonl", "eval_log.json", "latency.json", "report.html",
          "media/test_100000.mp4", "media/test_100000.safetensors",
          "media/train_0.mp4.tmp.0123456789abcdef", "traces/test_100000.safetensors",
          "plans/plan_000000.safetensors", "plans/plans.jsonl"}) {
      Add(below + file);
    }
  }
  std::string Refusal(bool overwrites = false) const {
    return MessageOf(ErrorCode::kUsage, [&] { RequireNoRun(run_, true, overwrites); });
  }

  ScratchFolder scratch_;
  const fs::path run_ = scratch_.path() / "run";
};

TEST_F(RunContentsTest, ANewOrEmptyFolderAndFilesOfOthersAreFree) {
  RequireNoRun(run_);
  fs::create_directories(run_);
  RequireNoRun(run_);
  Add("notes.txt");
  Add("media/holiday.mp4");
  Add("results.json");
  RequireNoRun(run_);
}

TEST_F(RunContentsTest, AnEvaluationIsRefusedWithTheWaysOut) {
  AddEvaluation();
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("already has an evaluation:"), HasSubstr("--overwrite"),
                               HasSubstr("another --output"), Not(HasSubstr("--resume"))));
  fs::remove(run_ / "eval_log.json");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("that is not finished"), HasSubstr("--resume")));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { RequireNoRun(run_); }),
              Not(HasSubstr("--overwrite")));
}

TEST_F(RunContentsTest, ATrainingOrCheckpointIsRefusedAlsoToOverwrite) {
  for (const char* file : {"logs.json.txt", "checkpoints/latest/manifest.json", "multi_run.json",
                           "ema.safetensors", "seed_42/manifest.json"}) {
    fs::remove_all(run_);
    AddEvaluation();
    Add(file);
    EXPECT_THAT(Refusal(true), HasSubstr("never overwritten")) << file;
  }
  // of a run whose training has not begun, and a config that could be a user's
  fs::remove_all(run_);
  Add("config.json");
  EXPECT_THAT(Refusal(true), HasSubstr("config.json"));
  Add("manifest.json", R"({"plugins": []})");
  EXPECT_THAT(Refusal(true), HasSubstr("never overwritten"));
}

TEST_F(RunContentsTest, OverwritingRemovesTheEvaluationAndNothingElse) {
  AddEvaluation();
  AddEvaluation("perturbations/delay=2/");
  for (const char* point :
       {"latency_150/", "naive_delay_2/", "rtc_delay_0_execute_4/", "bid_latency_100/"}) {
    AddEvaluation(point);
  }
  AddEvaluation("replay/");
  fs::remove(run_ / "replay/manifest.json");
  for (const char* file : {"perturbations.json", "delays.json", "delays.html", "verification.json",
                           "episodes.partial.jsonl"}) {
    Add(file);
  }
  for (const char* file : {"notes.txt", "media/holiday.mp4", "replay/notes.txt"}) Add(file);
  for (const char* file :
       {"config.json", "episodes.jsonl", "eval_log.json", "latency.json", "report.html"}) {
    fs::remove(run_ / "replay" / file);
  }
  RequireNoRun(run_, true, true);
  RemoveEvaluation(run_);
  EXPECT_EQ(FilesBelow(run_).size(), 3U) << DifferingFiles(FilesBelow(run_), {});
  EXPECT_EQ(NamesIn(run_), (std::set<std::string>{"media", "notes.txt", "replay"}));
}

TEST_F(RunContentsTest, WhatCannotBeRemovedKeepsItsHead) {
  AddEvaluation();
  // a folder at the file's path cannot be removed: as if killed there
  fs::remove(run_ / "eval_log.json");
  Add("eval_log.json/x");
  EXPECT_EQ(CodeOf([&] { RemoveEvaluation(run_); }), ErrorCode::kIo);
  EXPECT_FALSE(fs::exists(run_ / "episodes.jsonl"));
  EXPECT_TRUE(fs::exists(run_ / "manifest.json"));
  EXPECT_TRUE(fs::exists(run_ / "config.json"));
}

}  // namespace
}  // namespace dp_bench::run
