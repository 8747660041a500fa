// The folder that a run is written into: this process's alone, and made only when a run begins.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "core/communicator.h"
#include "core/folder_lock.h"
#include "experiment/experiment.h"

namespace dp_bench::experiment {

/// What may lie in the folder already.
enum class OldRun {
  kRefuse,        // nothing that a run leaves
  kMayOverwrite,  // the same, for a verb that has --overwrite, which its message names
  kOverwrite,     // an evaluation, which Begin removes
  kContinue       // the run that is continued
};

/// Holds the folder's lock as long as it lives. With several ranks rank 0 looks, locks and makes;
/// all have the path. The ranks must outlive it.
class OutputFolder {
 public:
  /// Makes the folder where it is missing and locks it. Throws Error{kUsage} at once when another
  /// process writes there, or when it holds a run that `old_run` does not allow; Error{kIo} when it
  /// cannot be made.
  OutputFolder(std::filesystem::path path, OldRun old_run, core::Communicator& ranks);

  /// A new folder below runs/, named by the time, policy and task.
  OutputFolder(const Experiment& experiment, core::Communicator& ranks);

  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Removes what it made, unless Begin was called: what fails before that leaves nothing.
  ~OutputFolder();

  const std::filesystem::path& path() const { return path_; }

  /// Everything else has been checked: says where the run will be, and removes what is to be
  /// overwritten.
  void Begin();

 private:
  void Make();
  void RemoveMade();

  core::Communicator& ranks_;
  std::filesystem::path path_;
  OldRun old_run_;
  std::vector<std::filesystem::path> made_;  // folders that were missing, the outermost first
  std::optional<core::FolderLock> lock_;
  bool is_begun_ = false;
};

}  // namespace dp_bench::experiment
