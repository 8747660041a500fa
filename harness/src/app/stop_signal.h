// Ctrl-C, SIGTERM, SIGUSR2 and SIGUSR1 as flags that long jobs look at.
#pragma once

#include <atomic>

namespace dp_bench {

/// From now on the first signal sets the flag, so that work can be saved; the second one ends the
/// program.
const std::atomic<bool>& CatchStopSignals();

/// From now on SIGUSR1 sets the flag, by which a snapshot is asked for, instead of ending the
/// program.
std::atomic<bool>& CatchSnapshotSignal();

}  // namespace dp_bench
