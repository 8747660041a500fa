// Processes that lock the same folder.
#include "core/folder_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/child_process.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Whatever the file system of the scratch folders.
constexpr LockCalls kOneMachine = {.lock = &flock,
                                   .is_shared = [](int /*descriptor*/) { return false; }};

TEST(FolderLock, ASecondProcessFailsAtOnceAndLeavesNothing) {
  const ScratchFolder scratch;
  std::optional<FolderLock> lock(std::in_place, scratch.path(), kOneMachine);
  const auto second = [&] {
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FolderLock(scratch.path(), kOneMachine); }),
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

constexpr LockCalls kNoLocks = {.lock =
                                    [](int /*descriptor*/, int /*operation*/) {
                                      errno = ENOLCK;
                                      return -1;
                                    },
                                .is_shared = [](int /*descriptor*/) { return false; }};

bool IsFolder(int descriptor) {
  struct stat found {};
  return fstat(descriptor, &found) == 0 && S_ISDIR(found.st_mode);
}

// What another machine does: it does not see the lock of this one's folder.
constexpr LockCalls kOtherMachine = {
    .lock = [](int descriptor,
               int operation) { return IsFolder(descriptor) ? 0 : flock(descriptor, operation); },
    .is_shared = [](int /*descriptor*/) { return true; }};

TEST(FolderLock, OnAFileSystemOfSeveralMachinesAFileIsLockedToo) {
  const ScratchFolder scratch;
  std::optional<FolderLock> lock(std::in_place, scratch.path(), kOtherMachine);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FolderLock(scratch.path(), kOtherMachine); }),
              HasSubstr("another process writes into"));
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / kLockFile));
  lock.reset();
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(FolderLock, OfAMachineThatStoppedIsFreeAlthoughItsFileIsThere) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / kLockFile) << "";
  { const FolderLock lock(scratch.path(), kOtherMachine); }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(FolderLock, OfManyMachinesAtOnceOnlyOneHoldsIt) {
  const ScratchFolder scratch;
  const std::filesystem::path held = scratch.path() / "held";
  const auto take_in_turns = [&] {
    for (int n = 0; n < 100;) {
      try {
        const FolderLock lock(scratch.path(), kOtherMachine);
        ++n;
        EXPECT_TRUE(std::filesystem::create_directory(held));
        EXPECT_TRUE(std::filesystem::remove(held));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
      }
    }
  };
  std::vector<pid_t> machines;
  for (int i = 0; i < 3; ++i) machines.push_back(StartChild(take_in_turns));
  for (const pid_t machine : machines) EXPECT_EQ(StatusOf(machine), 0);
}

TEST(FolderLock, WithFlockOfFoldersOnlyTheFileIsTheLock) {
  constexpr LockCalls kFoldersOnly = {.lock =
                                          [](int descriptor, int /*operation*/) {
                                            errno = ENOLCK;
                                            return IsFolder(descriptor) ? 0 : -1;
                                          },
                                      .is_shared = [](int /*descriptor*/) { return true; }};
  const ScratchFolder scratch;
  std::optional<FolderLock> lock(std::in_place, scratch.path(), kFoldersOnly);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FolderLock(scratch.path(), kFoldersOnly); }),
              HasSubstr(std::to_string(getpid())));
  lock.reset();
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(FolderLock, WithoutFlockAFileLocksUntilItsOwnerEnds) {
  const ScratchFolder scratch;
  std::optional<FolderLock> lock(std::in_place, scratch.path(), kNoLocks);
  const auto second = [&] {
    EXPECT_THAT(
        MessageOf(ErrorCode::kUsage, [&] { FolderLock(scratch.path(), kNoLocks); }),
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
    const FolderLock lock(scratch.path(), kNoLocks);
    kill(getpid(), SIGKILL);
  });
  StatusOf(child);
  EXPECT_TRUE(std::filesystem::exists(scratch.path() / kLockFile));
  { const FolderLock lock(scratch.path(), kNoLocks); }
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(FolderLock, WithoutFlockTheLockOfAnotherMachineStays) {
  const ScratchFolder scratch;
  for (const char* owner : {"far 0-1 pid:[1] 1 1\n", "", "nonsense"}) {
    std::ofstream(scratch.path() / kLockFile) << owner;
    EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { FolderLock(scratch.path(), kNoLocks); }),
                HasSubstr("If that process is gone, remove"))
        << owner;
  }
}

}  // namespace
}  // namespace dp_bench::core
