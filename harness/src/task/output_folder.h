// The output folder of a run. Only one process writes into it, and it is created only if a run
// begins.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "core/folder_lock.h"
#include "run/run_checkpoint.h"
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

// manifest.json: everything that a result depends on, except config and seeds.

/// JSON with versions, build ids, the used plugins with the SHA-256 of their files, the machine,
/// and the seeds of report and selection. With a checkpoint also its hash, and the seeds of the
/// dataset that its run names, if that was of the same task; null for an evaluation
/// without one, whose policy says more (Policy::Provenance). `n_ranks`: processes that share the
/// run.
std::string MakeManifest(const Experiment& experiment, int n_ranks,
                         const std::optional<run::CheckpointChoice>& checkpoint = std::nullopt,
                         const std::string& provenance = "");

/// For a training: adds the seeds of its dataset's episodes, as far as the dataset names them and
/// is from the config's env and task, and warns if test seeds are among them.
std::string WithDemonstrations(const Experiment& experiment, const std::string& manifest);

/// With env_runner.certify, adds the certificate that the env's outcomes are a function of the seed
/// (run/manifest.h), and says what it found.
std::string WithCertificate(const Experiment& experiment, const std::string& manifest);

/// Warns about each policy or env plugin of `manifest` whose file is not the one that the training
/// of `checkpoint` used. Says nothing for a checkpoint outside of a run folder.
void WarnOfChangedPlugins(const std::filesystem::path& checkpoint, const std::string& manifest);

/// Adds the run's id to the manifest (run/manifest.h), writes it and then the resolved config, and
/// returns the manifest. With several ranks, rank 0 writes.
std::string WriteRunHead(const std::filesystem::path& folder, const std::string& manifest,
                         const Config& config, core::Communicator& ranks);

/// Returns the manifest in `folder`, for a run that is to be continued. Throws Error{kUsage}
/// listing the differences if `manifest` is not the same, because the remaining episodes would not
/// match the others. Certificates, the seeds, the machine and the checkpoint's place are not
/// compared: the outcome class and the checkpoint's hash are.
std::string RequireSameManifest(const std::filesystem::path& folder, const std::string& manifest);

}  // namespace dp_bench::task
