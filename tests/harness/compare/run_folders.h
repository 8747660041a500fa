// Run folders like those of an evaluation, small enough to compute by hand.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compare/run_comparison.h"
#include "run/episode_log.h"

namespace dp_bench::compare {

inline nlohmann::json SmallConfig() {
  return {{"policy", {{"plugin", "unet_hybrid"}}},
          {"env", {{"plugin", "pusht"}, {"params", {{"task", "push"}, {"size", {96, 96}}}}}},
          {"env_runner", {{"max_steps", 300}}}};
}

inline nlohmann::json SmallManifest() {
  return {{"plugins",
           {{{"kind", "policy"}, {"version", "1.0.0"}, {"sha256", "11"}},
            {{"kind", "env"}, {"version", "1.2.0"}, {"sha256", "22"}}}}};
}

/// `text` n times.
inline std::string Times(int n, const std::string& text) {
  std::string repeated;
  for (int i = 0; i < n; ++i) repeated += text;
  return repeated;
}

/// One test episode per letter of `outcomes`, from `first_seed` on: s success, f not, x broken. The
/// score of a success is 1, else 0.5, broken 0.
inline std::vector<run::EpisodeRecord> SmallEpisodes(const std::string& outcomes,
                                                     std::uint64_t first_seed = 100000) {
  std::vector<run::EpisodeRecord> records;
  for (const char outcome : outcomes) {
    run::EpisodeRecord record = {.episode = static_cast<int>(records.size()), .split = "test"};
    record.seed = first_seed + records.size();
    record.success = outcome == 's';
    record.score = outcome == 's' ? 1.0 : outcome == 'f' ? 0.5 : 0.0;
    if (outcome == 'x') record.failure_reason = "the env threw";
    if (record.episode < 3) record.video = "media/test_" + std::to_string(record.seed) + ".mp4";
    records.push_back(record);
  }
  return records;
}

/// Such a run without files, with SmallConfig and SmallManifest.
inline run::RunFolder SmallRun(const std::string& outcomes, std::uint64_t first_seed = 100000) {
  return {.path = "the run",
          .episodes = SmallEpisodes(outcomes, first_seed),
          .config = SmallConfig().dump(),
          .manifest = SmallManifest().dump()};
}

/// The same as a folder.
inline void WriteSmallRun(const std::filesystem::path& folder, const std::string& outcomes,
                          std::uint64_t first_seed = 100000) {
  run::WriteEpisodeLog(folder, {.records = SmallEpisodes(outcomes, first_seed)});
  std::ofstream(folder / "config.json") << SmallConfig();
  std::ofstream(folder / "manifest.json") << SmallManifest();
}

/// The runs in these folders.
inline std::vector<run::RunFolder> ReadRuns(const std::vector<std::filesystem::path>& folders) {
  std::vector<run::RunFolder> runs;
  for (const std::filesystem::path& folder : folders) {
    runs.push_back(RequireComparable(run::ReadRunFolder(folder)));
  }
  return runs;
}

}  // namespace dp_bench::compare
