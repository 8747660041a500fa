// Runs that differ in a few config values, each in a folder of its own below one folder: `run
// --seeds`, `eval --perturb` and `eval --latencies`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "dp_bench/config.h"

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

// The runs of several training seeds, and one report over all of them. They differ only in
// training.seed; data, split and test seeds are the same.

/// The section `multi_run` of a config, as `run --seeds`.
struct MultiRunConfig {
  std::vector<std::uint64_t> seeds;
  std::filesystem::path run_dir;  // empty: a new folder

  static MultiRunConfig FromConfig(const Config& config);
};

/// Each seed in `folder`/seed_<n>. Throws Error{kUsage} for a seed that is named twice.
std::vector<SweepRun> SeedRuns(const std::filesystem::path& folder,
                               const std::vector<std::uint64_t>& seeds);

/// Lists the seeds in the folder, before the first run begins.
void WriteSeeds(const std::filesystem::path& folder, const std::vector<std::uint64_t>& seeds);

/// The seeds of such a folder; empty for a single run.
std::vector<std::uint64_t> SeedsOf(const std::filesystem::path& folder);

/// Writes the summary and the report over all seeds, and prints the table.
void ReportSeeds(const std::filesystem::path& folder, const std::vector<std::uint64_t>& seeds);

}  // namespace dp_bench::task
