// The program of a policy server: how it is started, watched, started again and ended. The programs
// are scripts of bash; nothing listens on their ports.
#include "remote/server_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "harness/plugin/processes.h"
#include "support/error_of.h"
#include "support/scratch_folder.h"

namespace dp_bench::remote {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// What a server does: it tells its port, and then `more`.
std::string Server(const std::string& more, const std::string& before = "") {
  const std::vector<std::string> words = {"bash", "-c",
                                          before + "echo 8123 >&$DP_BENCH_PORT_FD; " + more};
  return ShellCommand(words);
}

TEST(ServerProcess, KnowsThePortThatTheProgramTells) {
  ServerProcess server({.command = Server("sleep 100")});
  EXPECT_EQ(server.Url(), "ws://127.0.0.1:8123");
  EXPECT_TRUE(server.IsRunning());
  EXPECT_EQ(server.n_starts(), 1);
  ServerProcess other({.command = Server("sleep 100"), .scheme = "tcp"});
  EXPECT_EQ(other.Url(), "tcp://127.0.0.1:8123");
}

TEST(ServerProcess, EndsTheProgramAndItsChildren) {
  const ScratchFolder folder;
  const auto file = folder.path() / "pid.txt";
  pid_t child = 0;
  {
    ServerProcess server({.command = Server("setsid sleep 100 & echo $! >" + file.string() +
                                            "; trap '' TERM; while true; do sleep 1; done")});
    ASSERT_TRUE(Eventually([&] { return !!(std::ifstream(file) >> child); }));
  }
  EXPECT_TRUE(Eventually([&] { return plugin::HasEnded(child); }, 5s));
}

TEST(ServerProcess, LetsTheProgramTidyUp) {
  const ScratchFolder folder;
  const auto file = folder.path() / "tidy.txt";
  {
    const std::string trap = "trap 'echo 1 >" + file.string() + "; exit' TERM; ";
    const ServerProcess server({.command = Server("while true; do sleep 0.01; done", trap)});
  }
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(ServerProcess, SaysWhyTheProgramDoesNotStart) {
  const auto start = [](std::string command, std::chrono::milliseconds time) {
    return MessageOf(ErrorCode::kPlugin, [&] {
      const ServerProcess server({.command = std::move(command), .start_time = time});
    });
  };
  EXPECT_THAT(start("for i in $(seq 30); do echo line $i; done; exit 3", 10s),
              AllOf(HasSubstr("exited with code 3 before it told its port"), HasSubstr("line 30"),
                    HasSubstr("line 11\n"), Not(HasSubstr("line 10\n"))));
  EXPECT_THAT(start("no_such_program x", 10s), HasSubstr("not found"));
  EXPECT_THAT(start("true", 10s), HasSubstr("It printed nothing."));
  const auto begin = Clock::now();
  EXPECT_THAT(start("echo loading; sleep 100", 300ms),
              AllOf(HasSubstr("did not tell its port within 0.3 s"), HasSubstr("loading")));
  EXPECT_LT(Clock::now() - begin, 10s);
  EXPECT_THAT(start("bash -c 'echo 99999 >&$DP_BENCH_PORT_FD'", 10s), HasSubstr("exited with"));
}

TEST(ServerProcess, StartsTheProgramAgain) {
  ServerProcess server({.command = Server("echo bad luck; sleep 0.1; exit 4")});
  EXPECT_EQ(server.Ending(), "exited with code 4: bad luck");
  EXPECT_FALSE(server.IsRunning());
  EXPECT_EQ(server.Url(), "ws://127.0.0.1:8123");
  EXPECT_EQ(server.n_starts(), 2);
}

TEST(ServerProcess, TriesOnlyOnceToStartItAgain) {
  const ScratchFolder folder;
  const std::string file = (folder.path() / "marker").string();
  ServerProcess server(
      {.command = "[ ! -e " + file + " ] || exit 5\ntouch " + file + "\n" + Server("exit 4")});
  EXPECT_EQ(server.Ending(), "exited with code 4");
  const std::string first = MessageOf(ErrorCode::kPlugin, [&] { server.Url(); });
  EXPECT_THAT(first, HasSubstr("exited with code 5 before it told its port"));
  EXPECT_EQ(MessageOf(ErrorCode::kPlugin, [&] { server.Url(); }), first);
  EXPECT_EQ(server.n_starts(), 2);
}

TEST(ServerProcess, QuotesWords) {
  const std::vector<std::string> words = {"python", "my policy.py", "it's", "$HOME", ""};
  EXPECT_EQ(ShellCommand(words), R"(python 'my policy.py' 'it'\''s' '$HOME' '')");
}

}  // namespace
}  // namespace dp_bench::remote
