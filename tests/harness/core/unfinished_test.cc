// What remains after a signal ends the program.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "core/atomic_file.h"
#include "core/temporary_folder.h"
#include "support/folder_content.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

namespace fs = std::filesystem;

// In a separate process, because it cannot continue afterwards.
TEST(Unfinished, WhatIsBeingWrittenIsRemovedAndWhatWasCommittedStays) {
  const ScratchFolder scratch;
  EXPECT_EXIT(
      {
        WriteFileAtomically(scratch.path() / "whole", "whole");
        AtomicFile file(scratch.path() / "file");
        file.Write("half");
        AtomicFolder folder(scratch.path() / "folder");
        WriteFileAtomically(folder.temporary() / "in_it", "whole");
        AtomicFolder committed(scratch.path() / "committed");
        committed.Commit();
        const TemporaryFolder temporary;
        RemoveUnfinishedAndHold();
        _exit(fs::exists(temporary.path()) ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(NamesIn(scratch.path()), (std::set<std::string>{"committed", "whole"}));
}

// SIGKILL, which no handler sees.
TEST(Unfinished, AFileWhoseWriterWasKilledLeavesNothing) {
  const ScratchFolder scratch;
  EXPECT_EXIT(
      {
        AtomicFile file(scratch.path() / "file");
        file.Write("half");
        ::raise(SIGKILL);
      },
      testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(NamesIn(scratch.path()), std::set<std::string>{});
}

TEST(Unfinished, AFolderWhoseWriterWasKilledIsRemovedByTheNextWriterOfIt) {
  const ScratchFolder scratch;
  EXPECT_EXIT(
      {
        AtomicFolder folder(scratch.path() / "folder");
        ::raise(SIGKILL);
      },
      testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(NamesIn(scratch.path()).size(), 1U);
  const AtomicFolder alive(scratch.path() / "folder");
  EXPECT_EQ(NamesIn(scratch.path()), std::set<std::string>{alive.temporary().filename().string()});
  RemoveLeftOvers(scratch.path() / "folder");
  EXPECT_TRUE(fs::exists(alive.temporary())) << "its writer is alive";
}

}  // namespace
}  // namespace dp_bench::core
