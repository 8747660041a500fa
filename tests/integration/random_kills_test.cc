// A training that checkpoints often, is killed without warning at random moments or runs out of
// disk space, and is resumed, leaves the same files as an uninterrupted one. Every training runs in
// a child process; this process starts no LibTorch threads, so it can fork.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "dp_bench/random.h"
#include "harness/train/workspace/fake_training.h"
#include "support/child_process.h"
#include "support/error_of.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// 8 epochs. Each is evaluated, may become one of the two best, and is saved. `training`: further
/// keys of the section training.
Config OftenSaved(const std::string& training) {
  return Config::FromJson(R"({"training": {"num_epochs": 8, "rollout_every": 1,
      "checkpoint_every": 1, "lr_warmup_steps": 5, "gradient_accumulate_every": 3)" +
                          training + R"(}, "optimizer": {"lr": 0.05},
      "dataloader": {"batch_size": 7}, "val_dataloader": {"batch_size": 5, "num_workers": 0},
      "dataset": {"val_ratio": 0.17, "seed": 1},
      "checkpoint": {"topk": {"k": 2}, "keep_every": 3}})");
}

void Train(const fs::path& output, const std::string& training = "") {
  const train::FakeDataset dataset;
  train::Workspace(train::FakeParts(OftenSaved(training), dataset, output))
      .Run(train::FakeEvaluate);
}

constexpr const char* kResume = R"(, "resume": true)";

bool IsInTheMiddleOfASave(const fs::path& output) {
  if (!fs::exists(output / "checkpoints")) return false;
  for (const auto& entry : fs::directory_iterator(output / "checkpoints")) {
    const std::string name = entry.path().filename().string();
    if (core::IsTemporaryName(name) || name.ends_with(".old")) return true;
  }
  return false;
}

/// Kills a training `after` its start; returns whether it was still running.
bool IsKilled(const fs::path& output, const std::string& training, Seconds after) {
  const pid_t child = StartChild([&] { Train(output, training); });
  std::this_thread::sleep_for(after);
  kill(child, SIGKILL);
  const int status = StatusOf(child);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFSIGNALED(status);
}

// DPB_KILLS: the number of moments
TEST(RandomKills, EachResumesAndEveryFileEqualsThatOfAnUnbrokenRun) {
  const ScratchFolder scratch;
  const fs::path whole = scratch.path() / "whole";
  const Clock::time_point start = Clock::now();
  ASSERT_EQ(StatusOf(StartChild([&] { Train(whole); })), 0);
  const Seconds duration = Clock::now() - start;

  const char* const asked = std::getenv("DPB_KILLS");
  const int n_kills = asked != nullptr ? std::atoi(asked) : 8;
  RandomStream random(1, StreamId::kEnvStart);
  int n_in_save = 0;
  for (int i = 0; i < n_kills;) {
    const fs::path broken = scratch.path() / "broken";
    fs::remove_all(broken);
    if (!IsKilled(broken, "", duration * random.UniformDouble())) continue;
    ++i;
    n_in_save += IsInTheMiddleOfASave(broken) ? 1 : 0;
    ASSERT_EQ(StatusOf(StartChild([&] { Train(broken, kResume); })), 0) << "kill " << i;
    ASSERT_EQ(DifferingFiles(whole, broken), "") << "kill " << i;
  }
  std::printf("%d kills of a training of %.2f s, %d of them within a save\n", n_kills,
              duration.count(), n_in_save);
}

TEST(FullDisk, EndsTheTrainingWithAClearErrorAndItGoesOnWithMoreSpace) {
  const ScratchFolder scratch;
  const fs::path whole = scratch.path() / "whole";
  const fs::path disk = scratch.path() / "disk";
  fs::create_directories(disk);
  ASSERT_EQ(StatusOf(StartChild([&] { Train(whole); })), 0);
  // room for three checkpoints of six or seven small files, but not for all at once
  constexpr std::size_t kBytes = 30 * 4096;
  OnSmallDisk(disk, kBytes, [&] {
    const fs::path broken = disk / "run";
    EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { Train(broken); }),
                testing::HasSubstr("No space left on device"));
    EXPECT_TRUE(run::CheckpointStore(broken / "checkpoints").OpenLatest().has_value());
    ResizeSmallDisk(disk, 100 * kBytes);
    Train(broken, kResume);
    EXPECT_EQ(DifferingFiles(whole, broken), "");
  });
}

}  // namespace
}  // namespace dp_bench
