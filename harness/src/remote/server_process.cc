#include "remote/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
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
#include "core/parse_number.h"
#include "core/shell.h"
#include "core/system_error.h"

namespace dp_bench::remote {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice(50);       // the interval of checks while waiting
constexpr milliseconds kLastWords(500);  // of a program that has just closed its connections
constexpr milliseconds kGrace(2000);     // from SIGTERM to SIGKILL
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
  worker_ = plugin::WorkerChild(command, program_socket->value(), program_pipe->value());
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
  const std::string what = has_ended ? worker_.ending() + " before it told its port"
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
      std::string_view line(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
      const bool is_line = line.ends_with('\n');
      if (is_line) line.remove_suffix(1);
      const int port = core::ParseNumber<int>(line).value_or(0);  // the id's bytes are none
      if (is_line && port > 0 && port < 65536) return port;
      // it has closed its end, and may go on to end itself
      if (size <= 0) std::this_thread::sleep_for(kSlice);
    }
    if (!IsRunning()) return 0;
  }
  return 0;
}

std::string ServerProcess::Ending() {
  if (!worker_.HasEndedWithin(kLastWords)) return "";
  const std::string lines = output_->Lines();
  return lines.empty() ? worker_.ending() : fmt::format("{}: {}", worker_.ending(), lines);
}

std::string ServerProcess::Url() {
  if (!failure_.empty()) throw PluginError("{}", failure_);
  if (!IsRunning()) {
    core::LogWarning("the policy's command {}; it is started again", worker_.ending());
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
  if (!IsRunning()) return;
  kill(-worker_.id(), SIGTERM);  // which the worker does not heed
  if (!worker_.HasEndedWithin(kGrace)) worker_.Kill();
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
