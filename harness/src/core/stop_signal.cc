// A signal handler may do very little, so a waiting thread removes the files.
#include "core/stop_signal.h"

#include <semaphore.h>

#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <thread>

#include "core/atomic_file.h"

namespace dp_bench::core {
namespace {

std::atomic<bool> is_caught{false};  // by a job that checks the flag
std::atomic<bool> stop_requested{false};
std::atomic<bool> snapshot_requested{false};
std::atomic<int> fatal_signal{0};
sem_t fatal_signal_came;

void OnStopSignal(int signal) {
  if (is_caught.exchange(false)) {
    stop_requested = true;
    return;
  }
  const int error = errno;
  fatal_signal = signal;
  sem_post(&fatal_signal_came);
  errno = error;
}

void OnSnapshotSignal(int /*signal*/) { snapshot_requested = true; }

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

void EndWithFatalSignal() {
  while (sem_wait(&fatal_signal_came) != 0) {
  }
  RemoveUnfinishedAndHold();
  std::signal(fatal_signal, SIG_DFL);
  std::raise(fatal_signal);
}

}  // namespace

void WatchStopSignals() {
  sem_init(&fatal_signal_came, /*pshared=*/0, /*value=*/0);
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

}  // namespace dp_bench::core
