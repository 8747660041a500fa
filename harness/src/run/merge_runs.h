// Shards of one evaluation, or evaluations of the same, as one: the files of one process.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "run/episode_record.h"
#include "run/run_folder.h"
#include "run/shard.h"

namespace dp_bench::run {

/// What one of the folders has.
struct MergedPart {
  std::filesystem::path folder;
  std::optional<SeedShard> shard;
  int n_episodes = 0;
  int n_wanted = 0;        // of its shard, or of the whole
  double silent_s = 0.0;   // since its files were written last
  bool is_output = false;  // what an earlier merge or `dp_bench eval --resume` left
};

struct MergedRun {
  std::string manifest;  // of the first folder
  std::string config;
  RunResult result;  // each episode once, in the order of the seed list
  int n_wanted = 0;
  int n_twice = 0;  // rows of episodes that another folder than the output has too, with the same
                    // trace
  std::vector<MergedPart> parts;

  bool is_complete() const { return static_cast<int>(result.records.size()) == n_wanted; }
};

bool HasManifest(const std::filesystem::path& folder);

/// The run folders that these paths mean, each once: a folder, the shards below it, or both. Throws
/// Error{kUsage} for one that has none.
std::vector<std::filesystem::path> FindParts(std::span<const std::filesystem::path> paths);

/// Reads finished evaluations, and others as far as they are, also while they run. Throws
/// Error{kData} unless all are of one evaluation, naming what differs: config, checkpoint, plugins,
/// outcome class, or an episode whose traces differ. `output`: where they will be written.
MergedRun MergeRuns(std::span<const std::filesystem::path> folders,
                    const std::filesystem::path& output = {});

/// What ReadRunFolder would read of it, for the page.
RunFolder AsRunFolder(MergedRun merged, const std::filesystem::path& folder);

/// Writes manifest.json, config.json, videos and costs, and the results if all episodes are there,
/// else a journal, which `dp_bench eval --resume` continues. Throws Error{kUsage} if `folder` has
/// another run.
void WriteMerged(const MergedRun& merged, const std::filesystem::path& folder);

}  // namespace dp_bench::run
