// dp_bench_env_worker: runs one env for the program that started it, and ends with it.
//   dp_bench_env_worker SOCKET MEMORY PARENT [COMMAND...]    two inherited descriptors, a process
//   id
// The env is in a child of this process: an env plugin, or COMMAND with the three numbers. This
// process inherits every orphan below it, so that nothing which an env started outlives the env.
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "plugin/isolated_env.h"
#include "plugin/worker_process.h"

namespace {

using dp_bench::plugin::kEndSignal;

constexpr std::chrono::seconds kPatience(5);  // with processes that do not end when killed

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

// Sends this process a signal when its parent ends, for any reason.
void EndWithParent(int signal, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, signal);
  if (getppid() != parent) _exit(0);  // it ended before the line above
}

// Ends this process when the host closes the socket. Only the host has its other end.
void EndWithSocket(int socket) {
  std::thread([socket] {
    pollfd hang_up = {.fd = socket, .events = 0, .revents = 0};
    while (poll(&hang_up, 1, -1) <= 0) {
    }
    _exit(0);
  }).detach();
}

int RunPlugin(int socket, int memory) {
  // the host decides when to stop
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, SIG_IGN);
  EndWithSocket(socket);
  try {
    const int code = dp_bench::plugin::RunEnvWorker(socket, memory);
    std::fflush(nullptr);
    return code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dp_bench_env_worker: %s\nThis is a bug in dp_bench.\n", error.what());
    return 70;
  }
}

int RunCommand(int socket, int memory, std::vector<char*> command) {
  std::vector<std::string> numbers;
  for (const int number : {socket, memory, getppid()}) numbers.push_back(std::to_string(number));
  for (std::string& number : numbers) command.push_back(number.data());
  command.push_back(nullptr);
  for (const int kept : {socket, memory}) fcntl(kept, F_SETFD, 0);
  execvp(command[0], command.data());
  std::perror(command[0]);
  return 127;  // as a shell
}

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  std::error_code gone;  // processes end while the folder is read
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    std::string stat;
    if (pid <= 0 || !std::getline(std::ifstream(entry.path() / "stat"), stat)) continue;
    // "pid (name) state parent ...", and a name may hold anything
    const std::size_t parent = stat.rfind(") ") + 4;
    if (parent < stat.size() && std::atoi(&stat[parent]) == getpid()) children.push_back(pid);
  }
  return children;
}

// The children of a killed process become children of this one, and are killed in the next round.
void KillDescendants() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    pid_t reaped = 0;
    do reaped = waitpid(-1, nullptr, WNOHANG);
    while (reaped > 0);
    if (reaped < 0) return;  // there are none
    for (const pid_t child : Children()) kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Waits for the end of the env or of the host; returns the status with which the env ended.
int Watch(pid_t env, const sigset_t& awaited) {
  while (true) {
    int signal = 0;
    sigwait(&awaited, &signal);
    if (signal == kEndSignal) return SIGKILL;
    int status = 0;
    for (pid_t ended = 1; ended > 0;) {
      ended = waitpid(-1, &status, WNOHANG);
      if (ended == env) return status;
    }
  }
}

// Ends this process as `status` says, without leaving a core dump of it.
[[noreturn]] void EndAs(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit no_core = {.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(WTERMSIG(status), SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    std::raise(WTERMSIG(status));
    sigprocmask(SIG_SETMASK, &none, nullptr);
  }
  _exit(WEXITSTATUS(status));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "dp_bench_env_worker is started by dp_bench, with isolated envs\n");
    return 2;
  }
  const int socket = std::atoi(argv[1]);
  const int memory = std::atoi(argv[2]);
  const std::vector<char*> command(argv + 4, argv + argc);
  CloseOthers(socket, memory);
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  EndWithParent(kEndSignal, std::atoi(argv[3]));
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, no end of a child is told
  const pid_t own = getpid();
  const pid_t env = fork();
  if (env == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    EndWithParent(SIGKILL, own);
    // the env is destroyed; unloading its libraries would take longer than loading them
    _exit(command.empty() ? RunPlugin(socket, memory) : RunCommand(socket, memory, command));
  }
  if (env < 0) {
    std::perror("dp_bench_env_worker");
    return 71;
  }
  send(socket, &env, sizeof(env), MSG_NOSIGNAL);
  close(socket);
  close(memory);
  sigset_t awaited;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  sigaddset(&awaited, kEndSignal);
  const int status = Watch(env, awaited);
  KillDescendants();
  EndAs(status);
}
