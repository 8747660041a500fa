// One save in flight, errors that reach the caller, and when which checkpoint is complete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <semaphore>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dp_bench/error.h"
#include "support/error_of.h"
#include "support/file_size_limit.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"
#include "train/checkpoint_schedule.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kNumSteps = 4;                         // of the store, for one checkpoint
constexpr auto kMaxWait = std::chrono::seconds(60);  // after that a test fails instead of hanging

/// A training whose whole state is one number.
class CheckpointWriterTest : public testing::Test {
 protected:
  std::unique_ptr<CheckpointWriter> Open(bool is_background = true) {
    return std::make_unique<CheckpointWriter>(store_, is_background, [this] {
      if (on_sync_) on_sync_();
    });
  }

  void Save(CheckpointWriter* writer, int value, CheckpointSave save = {}) {
    value_ = value;
    writer->Save(std::move(save), [this](run::CheckpointContents* contents) { Copy(contents); });
  }

  void Copy(run::CheckpointContents* contents) const {
    for (const std::string_view file : {run::kModelFile, run::kNormalizerFile}) {
      Array array(DType::kInt32, {size_});
      array.as<std::int32_t>()[0] = value_;
      contents->tensors[std::string(file)]["value"] = std::move(array);
    }
    contents->config = "{}\n";
    contents->state = std::to_string(value_);
  }

  int Saved(const std::string& name) const {
    const run::Checkpoint checkpoint = run::Checkpoint::Open(scratch_.path() / name);
    const int value = checkpoint.ReadTensors(run::kModelFile).at("value").as<std::int32_t>()[0];
    EXPECT_EQ(checkpoint.state(), std::to_string(value));
    return value;
  }

  std::set<std::string> Names() const { return NamesIn(scratch_.path()); }

  ScratchFolder scratch_;
  std::function<void(int)> on_step_;
  std::function<void()> on_sync_;
  run::CheckpointStore store_{scratch_.path(), [this](int step) {
                                if (on_step_) on_step_(step);
                              }};
  int value_ = 0;
  std::int64_t size_ = 1;
};

TEST_F(CheckpointWriterTest, CallerGoesOnAndChangesItsStateWhileASaveIsHeldUp) {
  std::binary_semaphore has_gone_on(0);
  on_step_ = [&](int step) {
    if (step != 1) return;
    EXPECT_TRUE(has_gone_on.try_acquire_for(kMaxWait)) << "Save waits for the disk";
  };
  const auto writer = Open();
  Save(writer.get(), 7);
  EXPECT_FALSE(fs::exists(scratch_.path() / run::kLatest));
  writer->ThrowIfFailed();  // does not wait
  value_ = 8;
  has_gone_on.release();
  writer->Finish();
  EXPECT_EQ(Saved("latest"), 7);
}

TEST_F(CheckpointWriterTest, SecondCopyIsTakenWhenTheFirstSaveIsDone) {
  std::atomic<int> n_steps = 0;
  on_step_ = [&](int) { ++n_steps; };
  const auto writer = Open();
  for (int i = 0; i < 5; ++i) {
    writer->Save({}, [&](run::CheckpointContents* contents) {
      EXPECT_EQ(n_steps, i * kNumSteps);
      value_ = i;
      Copy(contents);
    });
  }
  writer->Finish();
  EXPECT_EQ(Saved("latest"), 4);
}

TEST_F(CheckpointWriterTest, CopyIsGivenTheMemoryOfTheSaveBeforeOnlyInTheBackground) {
  for (const bool is_background : {true, false}) {
    const auto writer = Open(is_background);
    Save(writer.get(), 1);
    writer->Save({}, [&](run::CheckpointContents* contents) {
      EXPECT_EQ(contents->tensors.size(), is_background ? 2U : 0U);
      Copy(contents);
    });
  }
}

TEST_F(CheckpointWriterTest, BestIsWrittenThenLatestThenTheOldOneIsRemoved) {
  const auto writer = Open();
  Save(writer.get(), 1, {.best = "old", .is_latest = false});
  writer->Finish();
  EXPECT_THAT(Names(), ElementsAre("old"));

  std::vector<std::set<std::string>> names;
  on_step_ = [&](int step) {
    if (step == kNumSteps) names.push_back(Names());
  };
  Save(writer.get(), 2, {.best = "new", .remove = "old"});
  writer->Finish();
  EXPECT_THAT(names, ElementsAre(std::set<std::string>{"new", "old"},
                                 std::set<std::string>{"latest", "new", "old"}));
  EXPECT_THAT(Names(), ElementsAre("latest", "new"));
}

TEST_F(CheckpointWriterTest, TheLatestOfAnInterruptionGoesOnceALaterCheckpointIsComplete) {
  const auto writer = Open();
  Save(writer.get(), 1);  // an interruption saves it in any case
  writer->Finish();
  Save(writer.get(), 2, {.is_latest = false});
  writer->Finish();
  EXPECT_THAT(Names(), ElementsAre("latest")) << "nothing later was written";

  bool was_kept_until_then = false;
  on_step_ = [&](int step) {
    if (step == kNumSteps) was_kept_until_then = Names().contains("latest");
  };
  Save(writer.get(), 3, {.kept = "epoch=0002", .is_latest = false});
  writer->Finish();
  EXPECT_TRUE(was_kept_until_then);
  EXPECT_THAT(Names(), ElementsAre("epoch=0002"));
}

TEST_F(CheckpointWriterTest, LogIsDurableBeforeAnyFileIsWritten) {
  bool is_folder_empty = false;
  on_sync_ = [&] { is_folder_empty = fs::is_empty(scratch_.path()); };
  const auto writer = Open();
  Save(writer.get(), 1, {.best = "best"});
  writer->Finish();
  EXPECT_TRUE(is_folder_empty);

  on_sync_ = [] { throw Error(ErrorCode::kIo, "cannot fsync the log"); };
  Save(writer.get(), 2, {.best = "better"});
  EXPECT_EQ(CodeOf([&] { writer->Finish(); }), ErrorCode::kIo);
  EXPECT_THAT(Names(), ElementsAre("best", "latest"));
  EXPECT_EQ(Saved("latest"), 1);
}

TEST_F(CheckpointWriterTest, EveryCallThrowsTheFaultOfTheSaveBeforeItOnce) {
  const auto writer = Open();
  const std::function<void()> calls[] = {[&] { writer->Finish(); }, [&] { Save(writer.get(), 2); },
                                         [&] {
                                           const auto end =
                                               std::chrono::steady_clock::now() + kMaxWait;
                                           while (std::chrono::steady_clock::now() < end)
                                             writer->ThrowIfFailed();
                                         }};
  for (const auto& call : calls) {
    on_step_ = [](int) { throw Error(ErrorCode::kCheckpoint, "no"); };
    Save(writer.get(), 1);
    EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint, call), HasSubstr("while a checkpoint was saved"));
    on_step_ = {};
    writer->ThrowIfFailed();
    writer->Finish();
  }
}

TEST_F(CheckpointWriterTest, FullDiskLeavesTheCheckpointBefore) {
  const auto writer = Open();
  Save(writer.get(), 1);
  writer->Finish();
  size_ = 100'000;
  {
    const FileSizeLimit limit(10'000);
    Save(writer.get(), 2);
    EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { writer->Finish(); }),
                HasSubstr("model.safetensors"));
  }
  EXPECT_THAT(Names(), ElementsAre("latest"));
  EXPECT_EQ(Saved("latest"), 1);
  Save(writer.get(), 3);
  writer->Finish();
  EXPECT_EQ(Saved("latest"), 3);
}

TEST_F(CheckpointWriterTest, DestructionFinishesTheSaveAndWarnsOfItsFault) {
  Save(Open().get(), 5);
  EXPECT_EQ(Saved("latest"), 5);

  on_step_ = [](int) { throw Error(ErrorCode::kIo, "the disk is gone"); };
  testing::internal::CaptureStderr();
  Save(Open().get(), 6);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("the disk is gone"));
  EXPECT_EQ(Saved("latest"), 5);
}

TEST_F(CheckpointWriterTest, WithoutBackgroundEverythingIsDoneOnTheCallingThread) {
  std::set<std::thread::id> threads;
  on_sync_ = [&] { threads.insert(std::this_thread::get_id()); };
  on_step_ = [&](int) { threads.insert(std::this_thread::get_id()); };
  const auto writer = Open(/*is_background=*/false);
  Save(writer.get(), 1);
  EXPECT_THAT(threads, ElementsAre(std::this_thread::get_id()));
  EXPECT_EQ(Saved("latest"), 1);
  on_step_ = [](int) { throw Error(ErrorCode::kIo, "no"); };
  EXPECT_EQ(CodeOf([&] { Save(writer.get(), 2); }), ErrorCode::kIo);
}

}  // namespace
}  // namespace dp_bench::train
