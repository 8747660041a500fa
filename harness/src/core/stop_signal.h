// Ctrl-C, SIGTERM, SIGHUP, SIGUSR2 and SIGUSR1: flags that long jobs check, and a quick and clean
// exit for everything else.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <memory>

namespace dp_bench::core {

/// Makes SIGINT, SIGTERM, SIGHUP and SIGUSR2 end the program at once, with their conventional exit
/// status, after unfinished files are removed (core/atomic_file.h). An ignored SIGHUP stays
/// ignored, as nohup requires. Call it once, before other threads start.
void WatchStopSignals();

/// Makes the first of these signals set the flag, so that work can be saved. The second one ends
/// the program, and so does a plugin that has not returned from a call 10 s after the first
/// (core/call_watch.h).
const std::atomic<bool>& CatchStopSignals();

/// Makes the signals end the program again. Returns whether one arrived since CatchStopSignals.
bool ReleaseStopSignals();

/// Makes SIGUSR1 set the flag, which requests a snapshot, instead of ending the program.
std::atomic<bool>& CatchSnapshotSignal();

/// Makes SIGHUP set the flag, which requests that a server reads its files again, instead of ending
/// the program.
std::atomic<bool>& CatchReloadSignal();

/// A stack of its own for the signal handlers of the current thread, until its destruction: after
/// an overflow the usual one is full.
class SignalStack {
 public:
  SignalStack() {
    const stack_t stack = {.ss_sp = memory_->data(), .ss_flags = 0, .ss_size = memory_->size()};
    sigaltstack(&stack, &before_);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;
  ~SignalStack() { sigaltstack(&before_, nullptr); }

 private:
  using Memory = std::array<std::byte, std::size_t{64} << 10>;  // AVX-512 state alone takes 3 KB

  const std::unique_ptr<Memory> memory_ = std::make_unique<Memory>();
  stack_t before_ = {};
};

}  // namespace dp_bench::core
