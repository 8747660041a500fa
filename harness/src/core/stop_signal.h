// Ctrl-C, SIGTERM, SIGHUP, SIGUSR2 and SIGUSR1: flags that long jobs check, and a quick and clean
// exit for everything else.
#pragma once

#include <atomic>

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

}  // namespace dp_bench::core
