#include "app/stop_signal.h"

#include <csignal>

namespace dp_bench {
namespace {

std::atomic<bool> stop_requested{false};

void OnStopSignal(int signal) {
  stop_requested = true;
  std::signal(signal, SIG_DFL);
}

}  // namespace

const std::atomic<bool>& CatchStopSignals() {
  std::signal(SIGINT, OnStopSignal);
  std::signal(SIGTERM, OnStopSignal);
  return stop_requested;
}

}  // namespace dp_bench
