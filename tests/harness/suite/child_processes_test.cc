// The program that it starts is this test.
#include "suite/child_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "suite/suite_run.h"
#include "support/scratch_folder.h"

namespace dp_bench::suite {
namespace {

TEST(ChildProcessesTest, TheOutputOfOneThatASignalEndsNamesTheSignal) {
  const ScratchFolder scratch;
  ChildProcesses children(1);
  children.Start(0, {"--gtest_filter=None", "--gtest_repeat=-1"}, scratch.path() / kOutputFile);
  children.AskToEnd();
  std::optional<ChildProcesses::Ended> ended;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!(ended = children.TakeEnded()) && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(ended);
  EXPECT_THAT(FailureOf({.folder = scratch.path()}),
              testing::StartsWith("ended by signal 15 (Terminated); last output: "));
}

TEST(ChildProcessesTest, WhatWasPrintedBeforeTheSignalIsPartOfTheReason) {
  const ScratchFolder scratch;
  std::ofstream(scratch.path() / kOutputFile)
      << kAttemptLine << "run\nepoch 1\nwhat():  no such joint\n\n"
      << kSignalLine << "6 (Aborted)\n";
  EXPECT_EQ(FailureOf({.folder = scratch.path()}),
            "ended by signal 6 (Aborted); last output: what():  no such joint");
}

}  // namespace
}  // namespace dp_bench::suite
