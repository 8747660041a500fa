// The output that reaches the user's terminal, and how lost output is detected.
#include "core/console.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "core/progress.h"

namespace dp_bench::core {
namespace {

TEST(Console, ShowsControlCharactersInsteadOfSendingThem) {
  EXPECT_EQ(Printable("a\x1b[2J\rb\x07 c\x7f\td\n"), "a\\x1b[2J\\x0db\\x07 c\\u007f\td\n");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31m"),
            "\\u009b31m");  // U+009B is ESC [ in one character
  EXPECT_EQ(Printable("Größe é 中 ≥\u00a0\xc2"), "Größe é 中 ≥\u00a0\xc2");
}

// In a separate process, because a stream keeps its error.
TEST(Console, RemembersThatAResultWasLost) {
  EXPECT_EXIT(
      {
        if (LostOutput()) _exit(1);
        std::freopen("/dev/full", "w", stdout);
        PrintResult("{}\n", 1);
        const auto reason = LostOutput();
        if (!reason) _exit(2);
        std::fputs(reason->c_str(), stderr);
        _exit(0);
      },
      testing::ExitedWithCode(0), "No space left on device");
}

TEST(Console, StatusAndProgressMayBeLost) {
  EXPECT_EXIT(
      {
        std::freopen("/dev/full", "w", stderr);
        PrintStatus("{}\n", 1);
        LogWarning("a warning");
        Progress progress({.file = stderr, .now = [] { return 0.0; }}, 0);
        progress.Update({.done = 1, .total = 1}, "train", "");
        _exit(LostOutput() ? 1 : 0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dp_bench::core
