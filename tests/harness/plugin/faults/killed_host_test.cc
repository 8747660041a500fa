// When the host ends for any reason, its env processes end and nothing is left over.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <filesystem>
#include <set>
#include <string>

#include "harness/plugin/processes.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;

std::set<std::string> SharedMemoryFiles() {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.find("dp_bench") != std::string::npos) names.insert(name);
  }
  return names;
}

/// The program isolate_host, started, with its envs running and one of them hanging.
pid_t StartHost() {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawnattr_t attributes;  // a test that was started with & inherits an ignored SIGINT
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &interrupt);
  std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "isolate_host";
  std::array<char*, 2> arguments = {program.data(), nullptr};
  pid_t host = -1;
  EXPECT_EQ(posix_spawn(&host, program.c_str(), &actions, &attributes, arguments.data(), environ),
            0);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::array<char, 16> text{};
  EXPECT_EQ(read(ends[0], text.data(), text.size()), 6) << "the host did not say that it is ready";
  close(ends[0]);
  return host;
}

TEST(KilledHost, LeavesNoProcessAndNoMemory) {
  const std::set<std::string> before = SharedMemoryFiles();
  for (const int signal : {SIGKILL, SIGTERM, SIGSEGV, SIGINT}) {
    const pid_t host = StartHost();
    ASSERT_EQ(WorkersOf(host).size(), 2U);
    const std::vector<pid_t> started = StartedBy(host);
    ASSERT_EQ(started.size(), 5U) << "each env is a child of its worker, and one has a daemon";
    kill(host, signal);
    EXPECT_EQ(waitpid(host, nullptr, 0), host);
    for (const pid_t pid : started) {
      EXPECT_TRUE(Eventually([pid] { return HasEnded(pid); })) << "signal " << signal;
    }
  }
  EXPECT_EQ(SharedMemoryFiles(), before);
}

}  // namespace
}  // namespace dp_bench::plugin
