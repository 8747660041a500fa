// The output folder of a run. Only one process writes into it, and it is created only if a run
// begins.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "core/communicator.h"
#include "core/folder_lock.h"
#include "task/experiment.h"

namespace dp_bench::task {

/// What the folder may already contain.
enum class OldRun {
  kRefuse,        // no files of a run
  kMayOverwrite,  // the same; the message suggests --overwrite
  kOverwrite,     // an evaluation, which Begin removes
  kContinue       // the run to continue
};

/// Locks the folder for its lifetime. With several ranks, rank 0 checks, locks and creates the
/// folder; all have the path. The ranks must outlive this object.
class OutputFolder {
 public:
  /// Creates the folder if necessary and locks it. Throws Error{kUsage} at once if another process
  /// has the lock or if it contains a run that `old_run` does not allow, Error{kIo} if it cannot be
  /// created.
  OutputFolder(std::filesystem::path path, OldRun old_run, core::Communicator& ranks);

  /// A new folder below runs/, named after time, policy and task.
  OutputFolder(const Experiment& experiment, core::Communicator& ranks);

  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  /// Removes the folders that it created, unless Begin was called.
  ~OutputFolder();

  const std::filesystem::path& path() const { return path_; }

  /// Call it when all checks have passed. Prints the path and removes an evaluation that is to be
  /// overwritten.
  void Begin();

 private:
  void Make();
  void RemoveMade();

  core::Communicator& ranks_;
  std::filesystem::path path_;
  OldRun old_run_;
  std::vector<std::filesystem::path> made_;  // created folders, the outermost first
  std::optional<core::FolderLock> lock_;
  bool is_begun_ = false;
};

}  // namespace dp_bench::task
