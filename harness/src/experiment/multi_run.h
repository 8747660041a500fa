// dp_bench run --seeds: the same training with several seeds, and one report over all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "core/communicator.h"
#include "experiment/experiment.h"

namespace dp_bench::experiment {

struct SeedTraining {
  std::filesystem::path folder;
  bool is_resumed = false;
  std::function<void()> write_summary;  // lists the seeds; call it first
};

/// One training with its evaluation; returns the exit code.
using RunOne = std::function<int(const ExperimentOptions& options, const SeedTraining& run)>;

/// Runs the seeds one after the other in `folder`/seed_<n>, then reports. Skips finished seeds and
/// continues started ones. The runs differ only in training.seed; data, split and test seeds are
/// the same. Returns the exit code: 0; 5 if an episode failed; that of an interrupted seed, without
/// running the rest. Every rank calls `run_one`; rank 0 decides which seeds are finished, and
/// reports.
int RunSeeds(const ExperimentOptions& options, const std::filesystem::path& folder,
             const std::vector<std::uint64_t>& seeds, core::Communicator& ranks,
             const RunOne& run_one);

/// The folders of the seeds that were begun and are not finished.
std::vector<std::filesystem::path> BegunSeeds(const std::filesystem::path& folder,
                                              const std::vector<std::uint64_t>& seeds);

/// The seeds of a folder from RunSeeds; empty for a single run.
std::vector<std::uint64_t> SeedsOf(const std::filesystem::path& folder);

}  // namespace dp_bench::experiment
