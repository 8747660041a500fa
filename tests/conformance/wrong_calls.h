// Calls that a plugin must refuse are made in another process, without the host's guard, so that a
// plugin that does not refuse them and crashes ends that process alone.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/worker_process.h"

namespace dp_bench::conformance {

/// The argument of the process that makes the wrong calls.
inline constexpr std::string_view kWrongCallsOnly = "--wrong-calls";

/// The arguments of this program, for the other process.
inline std::vector<std::string>& ProgramArguments() {
  static std::vector<std::string> arguments;
  return arguments;
}

/// Whether this is the other process.
inline bool HasOnlyWrongCalls(const std::vector<std::string>& arguments) {
  return std::ranges::find(arguments, kWrongCallsOnly) != arguments.end();
}

/// Chooses the tests of the suite WrongCalls in the other process, and all others in this one.
inline void ChooseWrongCalls(const std::vector<std::string>& arguments) {
  ProgramArguments() = arguments;
  if (HasOnlyWrongCalls(arguments)) {
    GTEST_FLAG_SET(filter, "WrongCalls.*");
    return;
  }
  const std::string filter = GTEST_FLAG_GET(filter);
  const bool has_exceptions = filter.find('-') != std::string::npos;
  GTEST_FLAG_SET(filter, filter + (has_exceptions ? ":" : "-") + "WrongCalls.*");
}

/// Runs this program again with the suite WrongCalls alone. Fails the current test with what the
/// other process reported, or with how it died.
inline void ExpectWrongCallsRefused() {
  std::vector<std::string> arguments = {"conformance", std::string(kWrongCallsOnly)};
  for (const std::string& argument : ProgramArguments()) {
    if (!argument.starts_with("--gtest")) arguments.push_back(argument);
  }
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0) << std::strerror(errno);
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    execv("/proc/self/exe", argv.data());
    _exit(126);
  }
  close(pipe_ends[1]);
  std::string output;
  std::array<char, 4096> part{};
  for (ssize_t n = 0; (n = read(pipe_ends[0], part.data(), part.size())) > 0;) {
    output.append(part.data(), static_cast<std::size_t>(n));
  }
  close(pipe_ends[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (output.find("test environment tear-down") == std::string::npos) {
    const std::size_t last = output.rfind("[ RUN      ] ");
    ADD_FAILURE() << "the plugin " << plugin::DescribeStatus(status) << " in a call that it must "
                  << "refuse with an Error; check sizes before you use what you get. It was "
                  << (last == std::string::npos
                          ? "before the first check"
                          : output.substr(last + 13, output.find('\n', last) - last - 13));
    return;
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << output;
}

}  // namespace dp_bench::conformance
