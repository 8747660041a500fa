#include "app/stop_signal.h"

#include <csignal>

namespace dp_bench {
namespace {

std::atomic<bool> stop_requested{false};
std::atomic<bool> snapshot_requested{false};

void OnStopSignal(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

void OnSnapshotSignal(int /*signal*/) { snapshot_requested = true; }

}  // namespace

const std::atomic<bool>& CatchStopSignals() {
  std::signal(SIGINT, OnStopSignal);
  std::signal(SIGTERM, OnStopSignal);
  // mpirun passes this one on without killing its ranks a second later, as it does after the others
  std::signal(SIGUSR2, OnStopSignal);
  return stop_requested;
}

std::atomic<bool>& CatchSnapshotSignal() {
  struct sigaction action = {};
  action.sa_handler = OnSnapshotSignal;
  action.sa_flags = SA_RESTART;  // whoever reads or writes meanwhile does not notice
  sigaction(SIGUSR1, &action, nullptr);
  return snapshot_requested;
}

}  // namespace dp_bench
