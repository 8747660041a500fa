// Numbers that several threads and processes take.
#include "core/ticket_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "core/atomic_file.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::core {
namespace {

TEST(TicketFileTest, GivesEachNumberOnceToThreadsOfSeveralFiles) {
  const ScratchFolder scratch;
  TicketFile a(scratch.path() / "next");
  TicketFile b(scratch.path() / "next");
  std::vector<std::vector<std::uint64_t>> taken(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < 500; ++k) taken[i].push_back((i % 2 == 0 ? a : b).Take());
      });
    }
  }
  std::vector<std::uint64_t> all;
  for (const auto& numbers : taken) {
    EXPECT_TRUE(std::ranges::is_sorted(numbers));
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  std::ranges::sort(all);
  ASSERT_EQ(all.size(), 2000U);
  EXPECT_EQ(all.front(), 0U);
  EXPECT_EQ(all.back(), 1999U);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST(TicketFileTest, GoesOnAfterAProcessThatWasKilled) {
  const ScratchFolder scratch;
  const pid_t child = fork();
  if (child == 0) {
    TicketFile tickets(scratch.path() / "next");
    for (int i = 0; i < 5; ++i) tickets.Take();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  EXPECT_EQ(TicketFile(scratch.path() / "next").Take(), 5U);
}

TEST(TicketFileTest, AFileThatWasCutOffIsNamed) {
  const ScratchFolder scratch;
  WriteFileAtomically(scratch.path() / "next", "cut");
  EXPECT_THAT(MessageOf(ErrorCode::kIo, [&] { TicketFile(scratch.path() / "next").Take(); }),
              testing::HasSubstr("it has 3 bytes, expected 8"));
}

TEST(TicketFileTest, NeedsAFolder) {
  EXPECT_EQ(CodeOf([] { TicketFile("/nowhere/next"); }), ErrorCode::kIo);
}

}  // namespace
}  // namespace dp_bench::core
