// Ctrl-C, SIGTERM, SIGHUP, SIGUSR2 and SIGUSR1: flags that long jobs look at, and a quick and clean
// end for everything else.
#pragma once

#include <atomic>

namespace dp_bench::core {

/// From now on SIGINT, SIGTERM, SIGHUP and SIGUSR2 end the program at once, with the exit status
/// that they have by convention, after what it was writing is removed (core/unfinished.h). An
/// ignored SIGHUP stays ignored: nohup asked for it. To be called once, before other threads.
void WatchStopSignals();

/// From now on the first of these signals sets the flag, so that work can be saved; the second one
/// ends the program.
const std::atomic<bool>& CatchStopSignals();

/// From now on they end the program again. Whether one came since CatchStopSignals.
bool ReleaseStopSignals();

/// From now on SIGUSR1 sets the flag, by which a snapshot is asked for, instead of ending the
/// program.
std::atomic<bool>& CatchSnapshotSignal();

}  // namespace dp_bench::core
