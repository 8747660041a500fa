// One method trained with several seeds: the result of each, and how much the seed matters.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compare/intervals.h"
#include "run/run_folder.h"

namespace dp_bench::compare {

/// The run of one training seed.
struct SeedRun {
  std::uint64_t seed = 0;
  std::string folder;  // below the folder of the whole: "seed_42"
  run::RunFolder files;
  run::SplitSummary test;
};

struct MultiRun {
  std::filesystem::path path;
  std::vector<SeedRun> runs;
  MeanInterval success_rate;  // one value per training seed; in [0, 1]
  MeanInterval mean_score;

  std::filesystem::path report_file() const;  // its page
};

/// "seed_42"
std::string SeedFolder(std::uint64_t seed);

/// Reads `folder`/seed_<n> for each of `seeds`. Throws Error{kData} if one has no test episodes.
MultiRun ReadMultiRun(const std::filesystem::path& folder, const std::vector<std::uint64_t>& seeds);

/// "seeds", "runs" and the intervals by metric.
nlohmann::json ToJson(const MultiRun& multi_run);

}  // namespace dp_bench::compare
