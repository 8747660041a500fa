// libhdf5 in a child process.

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "core/errors.h"
#include "core/library_lock.h"
#include "data/hdf5/h5_file.h"

namespace dp_bench::hdf5 {
namespace {

constexpr std::size_t kMaxReport = 60'000;  // fits in a pipe without a reader
constexpr rlim_t kMaxCpuSeconds = 600;
constexpr std::chrono::minutes kMaxTime{30};

void Limit(decltype(RLIMIT_CORE) resource, rlim_t value) {
  rlimit limit = {};
  if (::getrlimit(resource, &limit) != 0) return;
  limit.rlim_cur = std::min(value, limit.rlim_max);
  ::setrlimit(resource, &limit);
}

// The Error, as its code and its text; nothing if there is none.
std::string Report(const std::function<void()>& work) {
  const auto pack = [](ErrorCode code, const char* what) {
    return std::string(1, static_cast<char>(code)) + what;
  };
  try {
    work();
  } catch (const Error& error) {
    return pack(error.code(), error.what());
  } catch (const std::exception& error) {
    return pack(ErrorCode::kData, error.what());
  }
  return "";
}

// Memory is not limited more than in the program: both must do the same with a damaged file.
[[noreturn]] void RunChild(int pipe, const std::function<void()>& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) std::signal(signal, SIG_DFL);
  Limit(RLIMIT_CORE, 0);
  Limit(RLIMIT_CPU, kMaxCpuSeconds);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);  // the program says it again
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(nowhere, STDERR_FILENO);
  const std::string report = Report(work);
  const std::size_t n = std::min(report.size(), kMaxReport);
  const bool is_sent = ::write(pipe, report.data(), n) == static_cast<ssize_t>(n);
  ::_exit(is_sent ? 0 : 1);
}

// What the child writes until it ends; nothing if it does not end in time.
std::optional<std::string> ReadToEnd(int pipe) {
  const auto end = std::chrono::steady_clock::now() + kMaxTime;
  std::string text;
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    pollfd waited = {.fd = pipe, .events = POLLIN, .revents = 0};
    const int n_ready =
        ::poll(&waited, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (n_ready == 0) return std::nullopt;
    if (n_ready < 0) continue;  // a signal
    std::array<char, 4096> part = {};
    const ssize_t n = ::read(pipe, part.data(), part.size());
    if (n == 0) return text;
    if (n > 0) text.append(part.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

void TryInChild(const std::filesystem::path& path, const std::function<void()>& work) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  std::unique_lock lock(core::Hdf5Lock());  // no other thread is inside the library
  const pid_t child = ::fork();
  lock.unlock();
  if (child == 0) RunChild(ends[1], work);
  ::close(ends[1]);
  const std::optional<std::string> report = child > 0 ? ReadToEnd(ends[0]) : "";
  ::close(ends[0]);
  if (child < 0) return;
  if (!report) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const bool is_slow = signal == SIGXCPU || signal == SIGKILL;
    throw DataError(
        "{}: libhdf5 {} (signal {}): the file is damaged, or was made to do this. Copy it again "
        "from where it comes from.",
        path.string(), is_slow ? "does not come to an end with it" : "crashes on it", signal);
  }
  if (report->empty()) return;
  throw Error(static_cast<ErrorCode>(report->front()), report->substr(1));
}

}  // namespace dp_bench::hdf5
