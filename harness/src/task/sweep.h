// Runs that differ in a few config values, each in a folder of its own below one folder: `run
// --seeds`, `eval --perturb` and `eval --latencies`.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/communicator.h"

namespace dp_bench::task {

struct SweepRun {
  std::string title;  // printed when the run begins; may be empty
  std::filesystem::path folder;
  std::vector<std::string> overrides;  // what differs, as on the command line
};

/// What a folder has of its run.
enum class SweepProgress { kNone, kBegun, kDone };

SweepProgress ProgressOf(const std::filesystem::path& folder);

/// What to do with a run that is done.
enum class DoneRuns { kSkip, kRepeat };

/// Calls `perform`, which returns an exit code, for one run after the other, on every rank; rank 0
/// decides how far a run is. Returns at once after core::kExitInterrupted, else the first exit code
/// that is not 0.
int RunSweep(std::span<const SweepRun> runs, DoneRuns done_runs, core::Communicator& ranks,
             const std::function<int(const SweepRun& run, SweepProgress progress)>& perform);

}  // namespace dp_bench::task
