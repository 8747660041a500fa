// The checks run in a child process: a plugin that ends it has failed them, even with exit code 0.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <iostream>

#include "core/stop_signal.h"
#include "plugin/open_call.h"
#include "plugin/worker_process.h"

namespace dp_bench::conformance {

/// The exit code of `checks`, or 1 if their process ended before they did.
inline int RunInOwnProcess(const std::function<int()>& checks) {
  std::array<int, 2> finished{};
  if (pipe(finished.data()) != 0) return checks();
  const pid_t child = fork();
  if (child <= 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const core::SignalStack stack;
    const plugin::EarlyEndReport report;
    const int code = checks();
    const char done = '+';
    [[maybe_unused]] const ssize_t n = write(finished[1], &done, 1);
    return code;
  }
  close(finished[1]);
  int status = 0;
  waitpid(child, &status, 0);
  char done = '\0';
  const bool is_finished = read(finished[0], &done, 1) == 1;
  if (is_finished && WIFEXITED(status)) return WEXITSTATUS(status);
  std::cout << "[  FAILED  ] the process of the checks " << plugin::DescribeStatus(status)
            << (is_finished ? " after the last check" : " before the last check had ended")
            << std::endl;
  return 1;
}

}  // namespace dp_bench::conformance
