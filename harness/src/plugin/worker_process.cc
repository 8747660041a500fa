#include "plugin/worker_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "core/console.h"
#include "core/errors.h"
#include "core/thread_pool.h"

namespace dp_bench::plugin {

namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kSlice(50);        // the interval of checks while waiting
constexpr milliseconds kFarewell(5000);   // from the request to end until the kill
constexpr milliseconds kCleaning(6000);   // dp_bench_env_worker tries for 5 s to end its children
constexpr milliseconds kReapInterval(1);  // a process that closed its socket is about to end
constexpr const char* kGoodEnd = "exited with code 0";
constexpr std::size_t kBytesPerMb = 1 << 20;  // as `memory_limit_mb` counts

[[noreturn]] void ThrowStart(const char* what, int error) {
  throw IoError("cannot start a process for an env: {}: {}", what, std::strerror(error));
}

bool IsSlow(EnvCommand command) {
  return command == EnvCommand::kDescribe || command == EnvCommand::kCreate ||
         command == EnvCommand::kReset || command == EnvCommand::kBeginExpert;
}

fs::path WorkerFile() {
  const fs::path own_folder = fs::read_symlink("/proc/self/exe").parent_path();
  fs::path file = own_folder / kWorkerProgram;
  if (fs::exists(file)) return file;
  // of another program, such as Python: beside the library, in a build as in an installation
  fs::path beside = LibraryFolder() / "../bin" / kWorkerProgram;
  if (fs::exists(beside)) return beside;
  throw IoError(
      "{} is missing, the program that runs isolated envs; build its target {}, or set "
      "env_runner.isolate=false",
      file.string(), kWorkerProgram);
}

// The actions and attributes of posix_spawn: the two descriptors stay open in the new process, its
// input is empty, and no signal is blocked. It leads a group of its own, so that who kills the
// group of this program leaves it the time to end its children.
class SpawnSettings {
 public:
  SpawnSettings(int socket, int memory) {
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    // dup2 onto itself keeps the descriptor open across exec
    posix_spawn_file_actions_adddup2(&actions, socket, socket);
    posix_spawn_file_actions_adddup2(&actions, memory, memory);
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

// Processes of one command, also those that a worker starts, share a file with a line for each note
// that one of them has printed. This variable names it.
constexpr const char* kNotesVariable = "DP_BENCH_NOTES_FILE";

std::vector<char*> EnvironmentWithNotes() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.push_back(*variable);
  if (std::getenv(kNotesVariable) == nullptr) {
    static std::string own = fmt::format("{}=/proc/{}/fd/{}", kNotesVariable, getpid(),
                                         memfd_create("notes", MFD_CLOEXEC));
    variables.push_back(own.data());
  }
  variables.push_back(nullptr);
  return variables;
}

pid_t Spawn(const WorkerCommand& command, int socket, int memory) {
  for (const fs::path& file : command.files) RequireUnchanged(file);
  // they may have the number of a standard stream that this program has closed
  const core::Descriptor high_socket(fcntl(socket, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const core::Descriptor high_memory(fcntl(memory, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (high_socket.value() < 0 || high_memory.value() < 0) ThrowStart("fcntl", errno);
  socket = high_socket.value();
  memory = high_memory.value();
  std::vector<std::string> arguments = {WorkerFile().string()};
  for (const int number : {socket, memory, getpid()}) arguments.push_back(std::to_string(number));
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const SpawnSettings settings(socket, memory);
  std::vector<char*> variables = EnvironmentWithNotes();
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &settings.actions, &settings.attributes, argv.data(),
                                variables.data());
  if (error != 0) ThrowStart(argv[0], error);
  return pid;
}

// Resident memory [MB]; 0 if it cannot be read.
std::size_t ResidentMb(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / kBytesPerMb;
}

// Inode, size [bytes], and time of the last change [s, ns].
using Identity = std::tuple<ino_t, off_t, time_t, long>;

Identity IdentityOf(const std::filesystem::path& file) {
  struct stat found {};
  if (stat(file.c_str(), &found) != 0) return {};
  return {found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

}  // namespace

// The kernel kills a worker when the *thread* that started it ends (PR_SET_PDEATHSIG). So one
// thread, which lives as long as the program, starts all of them. It is never joined.
WorkerChild::WorkerChild(const WorkerCommand& command, int socket, int memory) {
  static auto* const thread = new core::ThreadPool(1);
  std::promise<pid_t> started;
  thread->Submit([&] {
    try {
      started.set_value(Spawn(command, socket, memory));
    } catch (...) {  // rethrown below
      started.set_exception(std::current_exception());
    }
  });
  id_ = started.get_future().get();
}

bool WorkerChild::HasEnded() {
  if (id_ < 0) return true;
  int status = 0;
  const pid_t reaped = waitpid(id_, &status, WNOHANG);
  if (reaped == 0) return false;
  ending_ = reaped == id_ ? DescribeStatus(status) : "ended";  // it was reaped elsewhere
  id_ = -1;
  return true;
}

bool WorkerChild::HasEndedWithin(milliseconds time) {
  const auto deadline = std::chrono::steady_clock::now() + time;
  while (!HasEnded()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kReapInterval);
  }
  return true;
}

void WorkerChild::Kill(const std::string& why) {
  if (id_ >= 0) kill(id_, kEndSignal);
  if (!HasEndedWithin(kCleaning)) {
    kill(-id_, SIGKILL);
    waitpid(id_, nullptr, 0);
    id_ = -1;
  }
  if (!why.empty()) ending_ = why;
}

std::string DescribeStatus(int status) {
  if (WIFEXITED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* const name = sigabbrev_np(signal);
  return fmt::format("died with signal {}{}", signal, name ? fmt::format(" (SIG{})", name) : "");
}

WorkerCommand WorkerCommand::OfPlugins() {
  return {.arguments = {}, .files = {WorkerFile(), OwnLibrary()}};
}

WorkerProcess::WorkerProcess(const WorkerCommand& command) : last_memory_check_(Clock::now()) {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    ThrowStart("socketpair", errno);
  }
  socket_.emplace(sockets[0]);
  const core::Descriptor of_worker(sockets[1]);
  const timeval slice = {.tv_sec = 0, .tv_usec = std::chrono::microseconds(kSlice).count()};
  setsockopt(socket_->value(), SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice));
  worker_ = WorkerChild(command, of_worker.value(), memory_.fd());
}

WorkerProcess::~WorkerProcess() {
  if (worker_.id() < 0) return;
  Send({.command = EnvCommand::kQuit});
  if (!worker_.HasEndedWithin(kFarewell)) worker_.Kill("did not end when it was asked to");
  if (ending() != kGoodEnd) core::LogWarning("an env plugin {}, in its destructor", ending());
}

bool WorkerProcess::Send(const Request& request) {
  return send(socket_->value(), &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request);
}

std::optional<Answer> WorkerProcess::Ask(const Request& request, const EnvLimits& limits) {
  DPB_ASSERT(worker_.id() >= 0);
  const double seconds = IsSlow(request.command) ? limits.reset_timeout : limits.step_timeout;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  if (!Send(request)) {
    Reap();
    return std::nullopt;
  }
  while (true) {
    Answer answer;
    const ssize_t size = recv(socket_->value(), &answer, sizeof(answer), 0);
    const bool is_answered = size == sizeof(answer);
    const bool is_greeting = size == sizeof(env_);
    if (is_greeting) std::memcpy(&env_, &answer, sizeof(env_));
    const bool is_waiting = is_greeting || (size < 0 && (errno == EAGAIN || errno == EINTR));
    if (!is_answered && !is_waiting) {
      Reap();
      return std::nullopt;
    }
    if (HoldsTooMuchMemory(limits.memory_limit_mb)) return std::nullopt;
    if (is_answered) return answer;
    if (worker_.HasEnded()) return std::nullopt;  // a process that it started keeps the socket open
    if (Clock::now() < deadline) continue;
    worker_.Kill(fmt::format("did not answer within {} s", seconds));
    return std::nullopt;
  }
}

// Checked only now and then, because it takes as long as a small env's step.
bool WorkerProcess::HoldsTooMuchMemory(int limit_mb) {
  if (limit_mb == 0) return false;
  const auto now = Clock::now();
  if (now < last_memory_check_ + kSlice) return false;
  last_memory_check_ = now;
  const std::size_t resident = ResidentMb(env_);
  if (std::cmp_less_equal(resident, limit_mb)) return false;
  worker_.Kill(
      fmt::format("held {} MB of memory, more than memory_limit_mb ({})", resident, limit_mb));
  return true;
}

// The socket is closed: by the end of the process, or by a plugin that closes descriptors of
// others.
void WorkerProcess::Reap() {
  if (!worker_.HasEndedWithin(milliseconds(1000))) worker_.Kill("closed the socket to its host");
}

void RequireUnchanged(const std::filesystem::path& file) {
  static std::mutex mutex;
  static auto* const first = new std::map<std::filesystem::path, Identity>();
  const std::lock_guard lock(mutex);
  const Identity now = IdentityOf(file);
  if (first->emplace(file, now).first->second == now) return;
  throw PluginError(
      "{} was replaced while this program is running, and a new env process would use the new "
      "file; start the program again",
      file.string());
}

std::filesystem::path OwnLibrary() {
  Dl_info info{};
  dladdr(reinterpret_cast<const void*>(&OwnLibrary), &info);
  return info.dli_fname;
}

std::filesystem::path LibraryFolder() { return fs::canonical(OwnLibrary()).parent_path(); }

}  // namespace dp_bench::plugin
