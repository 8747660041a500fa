// Ctrl-C and SIGTERM as a flag that long jobs look at.
#pragma once

#include <atomic>

namespace dp_bench {

/// From now on the first signal sets the flag, so that work can be saved; the second one ends the
/// program.
const std::atomic<bool>& CatchStopSignals();

}  // namespace dp_bench
