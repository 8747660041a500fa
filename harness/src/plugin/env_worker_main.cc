// dp_bench_env_worker: runs one env for the program that started it, and ends with it.
//   dp_bench_env_worker SOCKET MEMORY PARENT    two inherited descriptors, and a process id
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>

#include "plugin/env_worker.h"

namespace {

// Closes the other files that were inherited from the host, such as logs. Programs that the env
// starts do not inherit the two that are kept.
void CloseOthers(int socket, int memory) {
  unsigned first = STDERR_FILENO + 1;
  for (const int kept : {std::min(socket, memory), std::max(socket, memory)}) {
    const auto number = static_cast<unsigned>(kept);
    if (number > first) close_range(first, number - 1, 0);
    first = number + 1;
    fcntl(kept, F_SETFD, FD_CLOEXEC);
  }
  close_range(first, ~0U, 0);
}

// Ends this process with its host, even if an env hangs. The kernel sends a signal, and the socket
// hangs up, because only the host holds its other end.
void EndWithHost(int socket, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);  // the host died before the line above
  std::thread([socket] {
    pollfd hang_up = {.fd = socket, .events = 0, .revents = 0};
    while (poll(&hang_up, 1, -1) <= 0) {
    }
    _exit(0);
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "dp_bench_env_worker is started by dp_bench, with isolated envs\n");
    return 2;
  }
  const int socket = std::atoi(argv[1]);
  const int memory = std::atoi(argv[2]);
  // Ctrl-C goes to the whole process group; the host decides when to stop
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  std::signal(SIGHUP, SIG_IGN);
  CloseOthers(socket, memory);
  EndWithHost(socket, std::atoi(argv[3]));
  try {
    const int code = dp_bench::plugin::RunEnvWorker(socket, memory);
    // the env is destroyed; unloading its libraries would take longer than loading them
    std::fflush(nullptr);
    _exit(code);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dp_bench_env_worker: %s\nThis is a bug in dp_bench.\n", error.what());
    return 70;
  }
}
