// The child is a fork, not a new program: LibTorch is loaded already, so that a policy takes as
// little time as an env (5 ms), and programs that only link the SDK need no other program. glibc
// resets the locks of malloc and of the loader in the child.
#include "plugin/load_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/sha256.h"
#include "plugin/open_call.h"
#include "plugin/worker_process.h"

namespace dp_bench::plugin {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr milliseconds kLoadLimit(10000);
constexpr milliseconds kPollInterval(1);
constexpr milliseconds kPatience(2000);  // then the user is told
constexpr std::string_view kGood = "+";
constexpr std::string_view kRefused = "-";  // by the loader
constexpr std::size_t kMaxReport = 2048;
constexpr std::size_t kMaxMemory = 1 << 20;  // 16,000 files; then it starts anew
constexpr std::size_t kMaxFile = std::size_t{1} << 30;

// What the child has to say; without a word it was ended by the plugin.
std::string Load(const fs::path& file, const char* symbol) {
  // glibc declares dlopen as noexcept, and the compiler would end the process for an exception
  void* (*volatile load)(const char*, int) = dlopen;
  try {
    void* const library = load(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return std::string(kRefused);
    const auto entry = reinterpret_cast<const void* (*)()>(dlsym(library, symbol));
    if (entry != nullptr) entry();
    return std::string(kGood);
  } catch (const std::exception& exception) {
    return fmt::format("threw {}", exception.what());
  } catch (...) {  // becomes a message
    return "threw something that is not a std::exception";
  }
}

// Streams go nowhere: what the constructors print is printed when this program loads the file.
[[noreturn]] void RunChild(const fs::path& file, const char* symbol, int report, pid_t parent) {
  setpgid(0, 0);  // ended with all that it starts
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core_file = {};
  setrlimit(RLIMIT_CORE, &no_core_file);
  if (getppid() != parent) _exit(0);
  DropEarlyEndReport();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    std::signal(signal, SIG_DFL);
  }
  const int nowhere = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nowhere, stream);
  // this program's own objects are not for the child to destroy
  on_exit([](int status, void*) { _exit(status); }, nullptr);
  const std::string text = Load(file, symbol).substr(0, kMaxReport);
  [[maybe_unused]] const ssize_t n = write(report, text.data(), text.size());
  _exit(0);
}

// How the child ended; it is killed at the limit.
std::string Await(pid_t child, const fs::path& file, milliseconds limit) {
  const auto start = Steady::now();
  bool is_told = false;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const auto time = Steady::now() - start;
    if (time > limit) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
      return fmt::format("did not end within {} s", std::chrono::duration<double>(limit).count());
    }
    if (time > kPatience && !std::exchange(is_told, true)) {
      core::LogInfo("loading {}, which takes long", file.string());
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return DescribeStatus(status);
}

std::string ReadMemory(const fs::path& file) {
  try {
    return core::ReadTextFile(file, kMaxMemory);
  } catch (const Error&) {  // missing, unreadable or too large: nothing is known
    return "";
  }
}

// One write to the end, so that programs that do the same do not disturb each other. A failure
// only costs the next program a try.
void Remember(const fs::path& file, const std::string& hash) {
  std::error_code ignored;
  fs::create_directories(file.parent_path(), ignored);
  const int start = fs::file_size(file, ignored) > kMaxMemory && !ignored ? O_TRUNC : O_APPEND;
  const int memory = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | start, 0600);
  if (memory < 0) return;
  const std::string line = hash + "\n";
  [[maybe_unused]] const ssize_t n = write(memory, line.data(), line.size());
  close(memory);
}

}  // namespace

fs::path CacheFolder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  const char* const home = std::getenv("HOME");
  const fs::path folder = cache != nullptr && *cache != '\0' ? fs::path(cache)
                          : home != nullptr                  ? fs::path(home) / ".cache"
                                                             : fs::path();
  return folder.is_absolute() ? folder / "dp_bench" : fs::path();
}

std::optional<std::string> ProbeLoading(const fs::path& file, const char* symbol,
                                        milliseconds limit) {
  std::array<int, 2> report{};
  if (pipe2(report.data(), O_CLOEXEC) != 0) return std::nullopt;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) RunChild(file, symbol, report[1], parent);
  close(report[1]);
  std::string text(kMaxReport, '\0');
  if (child > 0) {
    const std::string ending = Await(child, file, limit);
    fcntl(report[0], F_SETFL, O_NONBLOCK);  // what the plugin started may hold the other end
    const ssize_t size = read(report[0], text.data(), text.size());
    kill(-child, SIGKILL);
    text = size > 0 ? text.substr(0, static_cast<std::size_t>(size)) : ending;
  }
  close(report[0]);
  if (child < 0 || text == kRefused) return std::nullopt;
  return text == kGood ? "" : text;
}

void RequireLoadable(const fs::path& file, const char* symbol) {
  if (dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD) != nullptr) return;  // loaded already
  const fs::path cache = CacheFolder();
  const fs::path memory = cache.empty() ? cache : cache / "loadable_plugins";
  const std::string hash = core::Sha256Hex(core::ReadFile(file, kMaxFile));
  if (ReadMemory(memory).find(hash) != std::string::npos) return;
  const std::optional<std::string> fault = ProbeLoading(file, symbol, kLoadLimit);
  if (!fault) return;
  if (fault->empty()) {
    if (!memory.empty()) Remember(memory, hash);
    return;
  }
  throw PluginError(
      "{} cannot be loaded: it {} while it was loaded in a process of its own, before any call. "
      "Look at its static constructors, which a plugin should not have, and at those of its "
      "libraries; or the file is damaged.",
      file.string(), *fault);
}

}  // namespace dp_bench::plugin
