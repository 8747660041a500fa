#include "suite/child_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <thread>

#include "core/console.h"
#include "core/control_groups.h"
#include "core/errors.h"
#include "core/system_error.h"
#include "core/thread_pool.h"

namespace dp_bench::suite {
namespace {

constexpr int kCannotStart = 127;  // as of a shell
constexpr std::chrono::seconds kFarewell(20);

// In the new process, where only a few calls are safe. Its own group: Ctrl-C reaches this program
// only, which asks it to end.
[[noreturn]] void BecomeCommand(char* const* arguments, int output, pid_t parent,
                                const cpu_set_t& processors) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kCannotStart);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  sched_setaffinity(0, sizeof(processors), &processors);
  const int input = open("/dev/null", O_RDONLY);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  execv("/proc/self/exe", arguments);
  _exit(kCannotStart);
}

// What the process could not say itself. It may have been in the middle of a line.
void NoteSignal(int signal, const std::filesystem::path& output) {
  const char* const why =
      signal == SIGKILL ? "; the system does that when memory runs out: use fewer --jobs" : "";
  std::ofstream file(output, std::ios::app);
  file << fmt::format("\n{}{} ({}){}\n", kSignalLine, signal, strsignal(signal), why);
  if (!file.flush()) {
    core::LogWarning("a process was ended by signal {}, but {} cannot be written", signal,
                     output.string());
  }
}

}  // namespace

ChildProcesses::ChildProcesses(int n_at_once) : places_(static_cast<std::size_t>(n_at_once)) {
  std::signal(SIGCHLD, SIG_DFL);  // if it is ignored, no process can be waited for
  setenv(core::kQuotaShares, std::to_string(n_at_once).c_str(), /*replace=*/1);
  std::vector<int> processors = core::UsableProcessors();
  if (processors.empty()) processors = {0};
  for (std::size_t i = 0; i < places_.size(); ++i) {
    CPU_ZERO(&places_[i].processors);
    const std::size_t begin = i * processors.size() / places_.size();
    const std::size_t end = std::max(begin + 1, (i + 1) * processors.size() / places_.size());
    for (std::size_t k = begin; k < end; ++k) CPU_SET(processors[k], &places_[i].processors);
  }
}

ChildProcesses::~ChildProcesses() {
  AskToEnd();
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  while (n_running() > 0 && std::chrono::steady_clock::now() < until) {
    TakeEnded();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const Place& place : places_) {
    if (place.pid < 0) continue;
    kill(-place.pid, SIGKILL);
    waitpid(place.pid, nullptr, 0);
  }
}

std::size_t ChildProcesses::n_running() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(places_, [](const Place& place) { return place.pid >= 0; }));
}

bool ChildProcesses::has_place() const { return n_running() < places_.size(); }

void ChildProcesses::Start(std::size_t id, const std::vector<std::string>& arguments,
                           const std::filesystem::path& output) {
  const auto place = std::ranges::find(places_, -1, &Place::pid);
  DPB_ASSERT(place != places_.end());
  std::vector<std::string> words = {"dp_bench"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const core::Descriptor file(
      open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (file.value() < 0) throw IoError("cannot write {}: {}", output.string(), std::strerror(errno));
  const std::string head = fmt::format("{}{}\n", kAttemptLine, fmt::join(arguments, " "));
  core::WriteAll(file.value(), std::as_bytes(std::span(head)), output);
  const pid_t parent = getpid();
  // a signal that comes before the command has its own handlers must wait
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) BecomeCommand(argv.data(), file.value(), parent, place->processors);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) throw IoError("cannot start a process: {}", std::strerror(error));
  setpgid(pid, pid);  // also here, so that it holds before a signal is sent
  place->pid = pid;
  place->id = id;
  place->output = output;
}

std::optional<ChildProcesses::Ended> ChildProcesses::TakeEnded() {
  for (Place& place : places_) {
    int status = 0;
    if (place.pid < 0 || waitpid(place.pid, &status, WNOHANG) != place.pid) continue;
    place.pid = -1;
    if (WIFSIGNALED(status)) NoteSignal(WTERMSIG(status), place.output);
    return Ended{.id = place.id, .status = status};
  }
  return std::nullopt;
}

void ChildProcesses::AskToEnd() {
  for (const Place& place : places_) {
    if (place.pid >= 0) kill(place.pid, SIGTERM);
  }
}

}  // namespace dp_bench::suite
