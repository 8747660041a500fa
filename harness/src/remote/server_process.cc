#include "remote/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "core/console.h"
#include "core/errors.h"
#include "core/shell.h"
#include "core/system_error.h"
#include "plugin/worker_process.h"

namespace dp_bench::remote {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice(50);       // the interval of checks while waiting
constexpr milliseconds kLastWords(500);  // of a program that has just closed its connections
constexpr milliseconds kGrace(2000);     // from SIGTERM to SIGKILL
constexpr milliseconds kCleaning(6000);  // dp_bench_env_worker tries for 5 s to end its children
constexpr std::size_t kMaxLines = 20;
constexpr std::size_t kMaxLineBytes = 1000;

// The numbers of the socket and of the pipe are $1 and $2. Python would keep what it prints in a
// buffer, and give its sets another order in every process. The shell outlives a SIGTERM, because
// the worker ends what is left when the shell has ended; what the shell runs gets the signal too.
constexpr std::string_view kPrelude =
    "exec 2>/proc/self/fd/$2 1>&2\n"
    "trap : TERM\n"
    "export DP_BENCH_PORT_FD=$1 PYTHONUNBUFFERED=1 PYTHONHASHSEED=${PYTHONHASHSEED-0}\n";

void RequireMade(int error) {
  if (error != 0) throw IoError("cannot start the policy's command: {}", std::strerror(errno));
}

}  // namespace

// Reads what the program prints and keeps the last lines.
class OutputTail {
 public:
  /// Owns the descriptor.
  explicit OutputTail(int pipe) : pipe_(pipe), thread_([this] { ReadAll(); }) {}
  OutputTail(const OutputTail&) = delete;
  OutputTail& operator=(const OutputTail&) = delete;
  ~OutputTail() {
    is_stopped_ = true;
    thread_.join();
  }

  /// Shows the lines to the user, also those that came before.
  void Show() {
    const std::lock_guard lock(mutex_);
    is_shown_ = true;
    for (const std::string& line : lines_) core::WriteStatus(line + "\n");
  }

  /// Everything that the program has printed is there after its end, unless a child still prints.
  std::string Lines() {
    const auto until = std::chrono::steady_clock::now() + kLastWords;
    while (!is_finished_ && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    const std::lock_guard lock(mutex_);
    return fmt::format("{}", fmt::join(lines_, "\n"));
  }

 private:
  void ReadAll() {
    std::array<char, 4096> bytes{};
    std::string line;
    while (!is_stopped_) {
      pollfd ready = {.fd = pipe_.value(), .events = POLLIN, .revents = 0};
      if (poll(&ready, 1, static_cast<int>(kSlice.count())) <= 0) continue;
      const ssize_t size = read(pipe_.value(), bytes.data(), bytes.size());
      if (size < 0 && errno == EINTR) continue;
      if (size <= 0) break;
      for (const char byte : std::string_view(bytes.data(), static_cast<std::size_t>(size))) {
        if (byte != '\n') line += byte;
        if (byte == '\n' || line.size() >= kMaxLineBytes) Add(std::exchange(line, ""));
      }
    }
    if (!line.empty()) Add(std::move(line));
    is_finished_ = true;
  }

  void Add(std::string line) {
    const std::lock_guard lock(mutex_);
    if (is_shown_) core::WriteStatus(line + "\n");
    lines_.push_back(std::move(line));
    if (lines_.size() > kMaxLines) lines_.pop_front();
  }

  core::Descriptor pipe_;
  std::atomic<bool> is_stopped_ = false;
  std::atomic<bool> is_finished_ = false;
  std::mutex mutex_;
  bool is_shown_ = false;
  std::deque<std::string> lines_;
  std::thread thread_;
};

ServerProcess::ServerProcess(ServerProcessOptions options) : options_(std::move(options)) {
  Start();
}

ServerProcess::~ServerProcess() { End(); }

void ServerProcess::Start() {
  std::array<int, 2> sockets{};
  RequireMade(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()));
  std::optional<core::Descriptor> socket(std::in_place, sockets[0]);
  std::optional<core::Descriptor> program_socket(std::in_place, sockets[1]);
  std::array<int, 2> pipe{};
  RequireMade(pipe2(pipe.data(), O_CLOEXEC));
  std::optional<core::Descriptor> program_pipe(std::in_place, pipe[1]);
  output_ = std::make_unique<OutputTail>(pipe[0]);
  plugin::WorkerCommand command = plugin::WorkerCommand::OfPlugins();
  command.arguments = {"/bin/sh", "-c", std::string(kPrelude) + options_.command, "sh"};
  pid_ = plugin::StartWorker(command, program_socket->value(), program_pipe->value());
  program_socket.reset();
  program_pipe.reset();
  ++n_starts_;
  port_ = AwaitPort(socket->value());
  socket.reset();
  if (port_ > 0) {
    output_->Show();
    return;
  }
  const bool has_ended = !IsRunning();
  const double seconds = std::chrono::duration<double>(options_.start_time).count();
  const std::string what = has_ended ? how_it_ended_ + " before it told its port"
                                     : fmt::format("did not tell its port within {} s", seconds);
  End();
  const std::string lines = output_->Lines();
  throw PluginError(
      "the policy's command {}: {}\n{}\nIt must call dp_bench.serve_policy, or write its port to "
      "the descriptor DP_BENCH_PORT_FD (docs/serving.md)",
      what, options_.command, lines.empty() ? "It printed nothing." : "It printed:\n" + lines);
}

// 0 if the program ends or is too slow. The worker sends the id of a process first.
int ServerProcess::AwaitPort(int socket) {
  const auto until = std::chrono::steady_clock::now() + options_.start_time;
  while (std::chrono::steady_clock::now() < until) {
    pollfd ready = {.fd = socket, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(kSlice.count())) > 0) {
      std::array<char, 32> bytes{};
      const ssize_t size = recv(socket, bytes.data(), bytes.size(), 0);
      int port = 0;
      const char* const end = bytes.data() + std::max<ssize_t>(size, 0);
      const auto [rest, error] = std::from_chars(bytes.data(), end, port);
      // nothing follows, unlike after digits in the bytes of the id
      const bool is_line = error == std::errc() && rest + 1 == end && *rest == '\n';
      if (is_line && port > 0 && port < 65536) return port;
      // it has closed its end, and may go on to end itself
      if (size <= 0) std::this_thread::sleep_for(kSlice);
    }
    if (!IsRunning()) return 0;
  }
  return 0;
}

bool ServerProcess::IsRunning() {
  if (pid_ < 0) return false;
  int status = 0;
  const pid_t reaped = waitpid(pid_, &status, WNOHANG);
  if (reaped == 0) return true;
  how_it_ended_ = reaped == pid_ ? plugin::DescribeStatus(status) : "ended";
  pid_ = -1;
  return false;
}

std::string ServerProcess::Ending() {
  const auto until = std::chrono::steady_clock::now() + kLastWords;
  while (IsRunning()) {
    if (std::chrono::steady_clock::now() > until) return "";
    std::this_thread::sleep_for(milliseconds(1));
  }
  const std::string lines = output_->Lines();
  return lines.empty() ? how_it_ended_ : fmt::format("{}: {}", how_it_ended_, lines);
}

std::string ServerProcess::Url() {
  if (!failure_.empty()) throw PluginError("{}", failure_);
  if (!IsRunning()) {
    core::LogWarning("the policy's command {}; it is started again", how_it_ended_);
    try {
      Start();
    } catch (const Error& error) {
      failure_ = error.what();
      throw;
    }
  }
  return fmt::format("{}://127.0.0.1:{}", options_.scheme, port_);
}

void ServerProcess::End() {
  const auto wait = [this](milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (IsRunning() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  };
  if (!IsRunning()) return;
  kill(-pid_, SIGTERM);  // which the worker does not heed
  wait(kGrace);
  if (pid_ >= 0) kill(pid_, plugin::kEndSignal);
  wait(kCleaning);
  if (pid_ < 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string ShellCommand(std::span<const std::string> words) {
  std::string command;
  for (const std::string& word : words) {
    if (!command.empty()) command += ' ';
    command += core::ShellWord(word);
  }
  return command;
}

}  // namespace dp_bench::remote
