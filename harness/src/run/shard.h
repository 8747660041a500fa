// Which episodes of an evaluation one of several processes runs, if no process knows the others.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dp_bench::run {

/// One of `n` parts of a seed list, numbered from 0.
struct SeedShard {
  int index = 0;
  int n = 1;

  std::string FolderName() const;  // "shard_3_of_50"
  bool operator==(const SeedShard&) const = default;
};

/// An environment variable; none if it is not set.
using Getenv = std::function<std::optional<std::string>(const char* name)>;

/// "3/50", the parts numbered from 0, or "auto": what started this process says which part it is.
/// Looked for in this order: Open MPI or PMI (OMPI_COMM_WORLD_RANK, PMI_RANK), a Slurm array
/// (SLURM_ARRAY_TASK_ID, _MIN, _COUNT), Slurm's tasks (SLURM_PROCID, SLURM_NTASKS), an Indexed Job
/// of Kubernetes (JOB_COMPLETION_INDEX, with JOB_COMPLETIONS, which its manifest must set), and
/// RANK with WORLD_SIZE. Throws Error{kUsage}.
SeedShard ReadShard(std::string_view text, const Getenv& getenv = {});

/// Whether "auto" would mean the rank of an MPI program, which then must not be one.
bool IsMpiRank();

/// The places in a seed list of `n_episodes` that belong to a shard, in order. Episodes are dealt
/// by a fixed permutation, so that no shard's difficulty follows from its number; all shards of any
/// n together have each episode once.
std::vector<int> EpisodesOf(const SeedShard& shard, int n_episodes);

/// How many those are.
int CountOf(const SeedShard& shard, int n_episodes);

/// Notes in a run folder that it is that of a shard.
void WriteShard(const std::filesystem::path& folder, const SeedShard& shard);

/// None if the folder is not that of a shard. Throws Error{kData} or {kIo}.
std::optional<SeedShard> ShardOf(const std::filesystem::path& folder);

}  // namespace dp_bench::run
