// What remains after a signal ends the program.
#include <gtest/gtest.h>
#include <unistd.h>

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

}  // namespace
}  // namespace dp_bench::core
