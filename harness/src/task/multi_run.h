// dp_bench run --seeds, or the section `multi_run` of a config: the runs of several training seeds,
// and one report over all of them. They differ only in training.seed; data, split and test seeds
// are the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "dp_bench/config.h"
#include "task/sweep.h"

namespace dp_bench::task {

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
