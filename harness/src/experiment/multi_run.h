// dp_bench run --seeds: the same training with several seeds, and one report over all of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "core/communicator.h"
#include "experiment/experiment.h"

namespace dp_bench::experiment {

/// The training of one seed.
struct SeedTraining {
  std::filesystem::path folder;
  bool is_resumed = false;
  std::function<void()> write_summary;  // which seeds there are: before the seed's own files
};

/// One training with its evaluation; returns the exit code.
using RunOne = std::function<int(const ExperimentOptions& options, const SeedTraining& run)>;

/// Runs each seed in `folder`/seed_<n>, one after the other, and reports. Seeds that are through
/// are not run again, those that were begun continue. The seeds differ in training.seed
/// alone: data, their split and the test seeds are the same. Returns the exit code: 0; that of the
/// interrupted seed, at once; 5 when an episode failed. Every rank runs `run_one`; rank 0 decides
/// what is through, and reports.
int RunSeeds(const ExperimentOptions& options, const std::filesystem::path& folder,
             const std::vector<std::uint64_t>& seeds, core::Communicator& ranks,
             const RunOne& run_one);

/// The seeds of a folder that RunSeeds made; none when it is the folder of a single run.
std::vector<std::uint64_t> SeedsOf(const std::filesystem::path& folder);

}  // namespace dp_bench::experiment
