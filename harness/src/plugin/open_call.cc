#include "plugin/open_call.h"

#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "plugin/guard.h"

namespace dp_bench::plugin {

// the model again, or accesses in this library would not have it, and a process could not load it
// before the library whose accesses have it
[[gnu::tls_model("initial-exec")]] constinit thread_local OpenCall open_call;

namespace {

constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

std::atomic<bool> is_watching{false};

// A text in a fixed buffer, because a signal handler must not allocate.
class SignalText {
 public:
  SignalText& Add(std::string_view text) {
    size_ += text.copy(buffer_ + size_, std::size(buffer_) - size_);
    return *this;
  }
  SignalText& Add(std::uint64_t number) {
    char digits[20];
    return Add({digits, std::to_chars(digits, std::end(digits), number).ptr});
  }
  std::string_view view() const { return {buffer_, size_}; }

 private:
  char buffer_[2048];
  std::size_t size_ = 0;
};

// `how` follows the name of the plugin: "died with signal 11 (SIGSEGV)".
void PrintEarlyEnd(std::string_view how) {
  SignalText text;
  const auto [place, call] = open_call;
  if (place == nullptr) {
    text.Add("dp_bench: the program ").Add(how).Add(" outside of calls into plugins.\n");
  } else {
    text.Add("dp_bench: ").Add(KindName(place->kind)).Add(" plugin '").Add(place->name);
    text.Add("' (").Add(place->file.native()).Add(") ").Add(how).Add(" in ").Add(call);
    if (place->seed) text.Add(", in the episode of seed ").Add(*place->seed);
    text.Add(", and the program ends with it. Look at this call of the plugin.");
    if (place->kind == PluginKind::kEnv) {
      text.Add(" With --isolate such an end costs one episode, not the program.");
    }
    text.Add("\n");
  }
  [[maybe_unused]] const ssize_t n = write(STDERR_FILENO, text.view().data(), text.view().size());
}

// The default action, a core dump included, follows when the handler returns.
void OnCrash(int signal) {
  std::signal(signal, SIG_DFL);
  SignalText how;
  how.Add("died with signal ").Add(static_cast<std::uint64_t>(signal));
  if (const char* const name = sigabbrev_np(signal)) how.Add(" (SIG").Add(name).Add(")");
  PrintEarlyEnd(how.view());
  std::raise(signal);
}

[[noreturn]] void EndEarly(std::string_view how) {
  is_watching = false;
  PrintEarlyEnd(how);
  core::RemoveUnfinishedAndHold();
  std::fflush(nullptr);
  _exit(ExitCodeFor(ErrorCode::kPlugin));
}

void OnExit(int status, void* /*unused*/) {
  if (!is_watching) return;
  SignalText how;
  how.Add("called exit(").Add(static_cast<std::uint64_t>(status & 0xFF)).Add(")");
  EndEarly(how.view());
}

void OnQuickExit() {
  if (is_watching) EndEarly("called quick_exit()");
}

bool IsHandledByDefault(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_DFL;
}

}  // namespace

EarlyEndReport::EarlyEndReport() {
  for (const int signal : kCrashes) {
    if (!IsHandledByDefault(signal)) continue;  // by a sanitizer, which says more
    struct sigaction action = {};
    action.sa_handler = OnCrash;
    action.sa_flags = SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
  // run before what was registered earlier, so that no static object is destroyed
  on_exit(OnExit, nullptr);
  std::at_quick_exit(OnQuickExit);
  is_watching = true;
}

EarlyEndReport::~EarlyEndReport() { is_watching = false; }

void DropEarlyEndReport() {
  is_watching = false;
  for (const int signal : kCrashes) std::signal(signal, SIG_DFL);
}

}  // namespace dp_bench::plugin
