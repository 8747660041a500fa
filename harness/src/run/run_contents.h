// What lies in a folder that a run is to be written into, told by the names of files: nothing is
// written over, and nothing is removed but what an evaluation left.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dp_bench::run {

struct RunContents {
  std::vector<std::string> training;    // of a training or a checkpoint, and what nothing else owns
  std::vector<std::string> evaluation;  // of one
  bool is_finished = false;             // the evaluation came to its end

  bool is_empty() const { return training.empty() && evaluation.empty(); }
};

/// Files that no run writes do not count. A folder that is not there is empty.
RunContents LookIntoRun(const std::filesystem::path& folder);

/// Throws Error{kUsage} when the folder holds a run, with its names and what to do: --resume,
/// --overwrite where the verb `has_overwrite` and there is no training, another --output. With
/// `overwrites` that was asked for: an evaluation passes then, a training does not.
void RequireNoRun(const std::filesystem::path& folder, bool has_overwrite = false,
                  bool overwrites = false);

/// Removes what an evaluation left, below RequireNoRun(folder, true, true): films, episodes,
/// journal, reports, config and manifest, and so for its arms and latencies. The episodes go first
/// and the manifest last, so that a kill in between leaves no evaluation that looks finished. Files
/// of other names stay. Throws Error{kIo}.
void RemoveEvaluation(const std::filesystem::path& folder);

}  // namespace dp_bench::run
