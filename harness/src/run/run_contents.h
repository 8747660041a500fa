// What an output folder already contains, by file names. Nothing is overwritten, and only files of
// an evaluation are ever removed.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dp_bench::run {

struct RunContents {
  std::vector<std::string> training;    // of a training or a checkpoint
  std::vector<std::string> evaluation;  // files of an evaluation
  bool is_finished = false;             // the evaluation is complete

  bool is_empty() const { return training.empty() && evaluation.empty(); }
};

/// Ignores files that no run writes. A missing folder counts as empty.
RunContents LookIntoRun(const std::filesystem::path& folder);

/// Throws Error{kUsage} if the folder contains a run. The message lists its files and what to do:
/// --resume, --overwrite (if the verb `has_overwrite` and there is no training) or another
/// --output. With `overwrites`, an evaluation is allowed; a training never is.
void RequireNoRun(const std::filesystem::path& folder, bool has_overwrite = false,
                  bool overwrites = false);

/// The run or checkpoint folder in which this path, existing or not, has the name of one of its
/// files; empty if there is none. Looks at the three folders above.
std::filesystem::path RunThatOwns(const std::filesystem::path& file);

/// Removes an evaluation after RequireNoRun(folder, true, true): videos, episodes, journal,
/// reports, config and manifest, also of its arms and latencies. Episodes go first and the manifest
/// last, so that a kill leaves nothing that looks like a finished evaluation. Other files stay.
/// Throws Error{kIo}.
void RemoveEvaluation(const std::filesystem::path& folder);

}  // namespace dp_bench::run
