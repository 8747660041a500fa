// Processes that lock the same folder.
#include "core/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "support/child_process.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(FolderLock, ASecondProcessFailsAtOnceAndLeavesNothing) {
  const ScratchFolder scratch;
  std::optional<FolderLock> lock(scratch.path());
  const auto second = [&] {
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FolderLock{scratch.path()}; }),
                HasSubstr("another process writes into '" + scratch.path().string()));
  };
  EXPECT_EQ(StatusOf(StartChild(second)), 0);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  lock.reset();
  EXPECT_EQ(StatusOf(StartChild([&] { FolderLock{scratch.path()}; })), 0);
}

TEST(FolderLock, EndsWithAProcessThatIsKilled) {
  const ScratchFolder scratch;
  int is_locked[2];
  ASSERT_EQ(pipe(is_locked), 0);
  const pid_t child = StartChild([&] {
    const FolderLock lock(scratch.path());
    EXPECT_EQ(write(is_locked[1], "x", 1), 1);
    pause();
  });
  char byte = 0;
  ASSERT_EQ(read(is_locked[0], &byte, 1), 1);
  EXPECT_EQ(CodeOf([&] { FolderLock{scratch.path()}; }), ErrorCode::kUsage);
  kill(child, SIGKILL);
  StatusOf(child);
  FolderLock{scratch.path()};
}

TEST(FolderLock, WhatIsNoFolderIsNamed) {
  const ScratchFolder scratch;
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { FolderLock{scratch.path() / "none"}; }),
              HasSubstr("none': No such file or directory"));
}

// What a file system without flock does.
int NoLocks(int /*descriptor*/, int /*operation*/) {
  errno = ENOLCK;
  return -1;
}

TEST(FolderLock, WithoutFlockAFileLocksUntilItsOwnerEnds) {
  const ScratchFolder scratch;
  std::optional<FolderLock> lock(std::in_place, scratch.path(), &NoLocks);
  const auto second = [&] {
    EXPECT_THAT(
        MessageOf(ErrorCode::kUsage, [&] { FolderLock(scratch.path(), &NoLocks); }),
        AllOf(HasSubstr("another process writes into"), HasSubstr(std::to_string(getppid()))));
  };
  EXPECT_EQ(StatusOf(StartChild(second)), 0);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / kLockFile));
  lock.reset();
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(FolderLock, WithoutFlockTheLockOfAKilledProcessIsTakenOver) {
  const ScratchFolder scratch;
  const pid_t child = StartChild([&] {
    const FolderLock lock(scratch.path(), &NoLocks);
    kill(getpid(), SIGKILL);
  });
  StatusOf(child);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / kLockFile));
  { const FolderLock lock(scratch.path(), &NoLocks); }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(FolderLock, WithoutFlockTheLockOfAnotherMachineStays) {
  const ScratchFolder scratch;
  for (const char* owner : {"far 0-1 pid:[1] 1 1\n", "", "nonsense"}) {
    std::ofstream(scratch.path() / kLockFile) << owner;
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FolderLock(scratch.path(), &NoLocks); }),
                HasSubstr("If that process is gone, remove"))
        << owner;
  }
}

}  // namespace
}  // namespace dp_bench::core
