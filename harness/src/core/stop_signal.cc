// A signal handler may do very little, so a waiting thread removes the files.
#include "core/stop_signal.h"

#include <semaphore.h>

#include <cerrno>
#include <string>
#include <thread>

#include "core/atomic_file.h"
#include "core/call_watch.h"
#include "core/console.h"

namespace dp_bench::core {
namespace {

// A plugin that takes longer for one call, after the signal, is believed to hang. Jobs save their
// work within that time, or make other calls.
constexpr int kPatience = 10;  // [s]

std::atomic<bool> is_caught{false};  // by a job that checks the flag
std::atomic<bool> stop_requested{false};
std::atomic<bool> snapshot_requested{false};
std::atomic<bool> reload_requested{false};
std::atomic<int> caught_signal{0};
std::atomic<int> fatal_signal{0};
sem_t signal_came;

void OnStopSignal(int signal) {
  const int error = errno;
  if (is_caught.exchange(false)) {
    caught_signal = signal;
    stop_requested = true;
  } else {
    fatal_signal = signal;
  }
  sem_post(&signal_came);
  errno = error;
}

void OnSnapshotSignal(int /*signal*/) { snapshot_requested = true; }

void OnReloadSignal(int /*signal*/) { reload_requested = true; }

// System calls that a handler interrupts are restarted.
void Handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

// False after `seconds` without another signal.
bool WaitForSignal(int seconds) {
  timespec until{};
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += seconds;
  int result = 0;
  do {
    result = sem_clockwait(&signal_came, CLOCK_MONOTONIC, &until);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

// After a signal that a job caught: waits for the next one, or until a plugin hangs.
void WaitForSignalOrHang() {
  OpenCalls calls;
  while (true) {
    calls.Refresh();
    if (WaitForSignal(kPatience)) return;
    const std::string hanging = calls.StillOpen();
    if (hanging.empty()) continue;
    LogWarning(
        "{}: expected it to return, found it still running {} s after the signal. The program ends "
        "without it; env_runner.isolate=true limits how long a call may take.",
        hanging, kPatience);
    fatal_signal = caught_signal.load();
    return;
  }
}

void EndWithFatalSignal() {
  while (fatal_signal == 0) {
    if (stop_requested) {
      WaitForSignalOrHang();
    } else {
      sem_wait(&signal_came);
    }
  }
  RemoveUnfinishedAndHold();
  std::signal(fatal_signal, SIG_DFL);
  std::raise(fatal_signal);
}

}  // namespace

void WatchStopSignals() {
  sem_init(&signal_came, /*pshared=*/0, /*value=*/0);
  std::thread(EndWithFatalSignal).detach();
  // mpirun passes SIGUSR2 on without killing its ranks a second later, as it does after the others
  for (const int signal : {SIGINT, SIGTERM, SIGUSR2}) Handle(signal, OnStopSignal);
  if (!IsIgnored(SIGHUP)) Handle(SIGHUP, OnStopSignal);
}

const std::atomic<bool>& CatchStopSignals() {
  is_caught = !stop_requested;
  return stop_requested;
}

bool ReleaseStopSignals() {
  is_caught = false;
  return stop_requested;
}

std::atomic<bool>& CatchSnapshotSignal() {
  Handle(SIGUSR1, OnSnapshotSignal);
  return snapshot_requested;
}

std::atomic<bool>& CatchReloadSignal() {
  Handle(SIGHUP, OnReloadSignal);
  return reload_requested;
}

}  // namespace dp_bench::core
