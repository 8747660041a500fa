// A training that is killed without warning and resumed leaves the same files as an uninterrupted
// one. Every training runs in a child process; this process starts no LibTorch threads, so it can
// fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>

#include "harness/train/workspace/fake_training.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench {
namespace {

namespace fs = std::filesystem;

/// Where a training kills itself; by default nowhere.
struct Death {
  int at_loss = -1;        // counting training and validation losses
  int at_evaluation = -1;  // counting evaluations
  int at_store_step = -1;  // counting the store's steps, on the thread that writes checkpoints
};

void DieAtZero(int* countdown) {
  if (--*countdown == 0) kill(getpid(), SIGKILL);
}

void Train(const fs::path& output, const std::string& training, Death death) {
  const train::FakeDataset dataset;
  train::WorkspaceParts parts = train::FakeParts(train::FakeConfig(training), dataset, output);
  parts.create_policy = [&death] {
    auto policy = train::MakeFakePolicy();
    policy->on_loss = [&death] { DieAtZero(&death.at_loss); };
    return policy;
  };
  parts.after_store_step = [&death](int) { DieAtZero(&death.at_store_step); };
  train::Workspace(std::move(parts)).Run([&death](Policy& policy, int epoch) {
    DieAtZero(&death.at_evaluation);
    return train::FakeEvaluate(policy, epoch);
  });
}

/// Trains in a child process; returns whether it was killed.
bool WasKilled(const fs::path& output, const std::string& training, Death death = {}) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      Train(output, training, death);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  EXPECT_TRUE(was_killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
  return was_killed;
}

TEST(KillAndResume, EveryFileEqualsThatOfAnUnbrokenRun) {
  const ScratchFolder scratch;
  const fs::path whole = scratch.path() / "whole";
  ASSERT_FALSE(WasKilled(whole, ""));
  ASSERT_EQ(FilesBelow(whole).count("checkpoints/latest/ema.safetensors"), 1U);

  // within the first epoch, within a later one, in a validation, twice; during an evaluation
  const Death deaths[] = {{.at_loss = 5}, {.at_loss = 18}, {.at_loss = 11}, {.at_evaluation = 2}};
  for (const Death& death : deaths) {
    const fs::path broken = scratch.path() / ("killed_" + std::to_string(death.at_loss));
    ASSERT_TRUE(WasKilled(broken, "", death));
    ASSERT_TRUE(WasKilled(broken, R"("resume": true)", {.at_loss = 9}));
    ASSERT_FALSE(WasKilled(broken, R"("resume": true)"));
    EXPECT_EQ(DifferingFiles(whole, broken), "") << broken;
  }
}

TEST(KillAndResume, ALoadableCheckpointIsLeftWhereverABackgroundSaveIsKilled) {
  const ScratchFolder scratch;
  const fs::path whole = scratch.path() / "whole";
  ASSERT_FALSE(WasKilled(whole, ""));

  // each of the four steps, of a best checkpoint or of `latest`; at 6 and 7 of the first `latest`
  for (const int step : {2, 6, 7, 9, 13, 14, 15, 16, 19}) {
    const fs::path broken = scratch.path() / ("killed_at_" + std::to_string(step));
    ASSERT_TRUE(WasKilled(broken, "", {.at_store_step = step}));
    // the best one is complete from its third step on
    EXPECT_EQ(run::CheckpointStore(broken / "checkpoints").OpenLatest().has_value(), step >= 3)
        << step;
    ASSERT_FALSE(WasKilled(broken, R"("resume": true)"));
    EXPECT_EQ(DifferingFiles(whole, broken), "") << "killed at step " << step;
  }
}

}  // namespace
}  // namespace dp_bench
