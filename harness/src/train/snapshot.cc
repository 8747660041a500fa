// See snapshot.h.
#include "train/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include "core/atomic_file.h"
#include "core/regular_file.h"
#include "core/system_error.h"
#include "dp_bench/error.h"
#include "run/run_files.h"
#include "run/store.h"

namespace dp_bench::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCheckpointFolder = "checkpoints";
constexpr const char* kRunConfigFile = "config.json";
constexpr std::size_t kBlockBytes = 1U << 20;
constexpr std::int64_t kWhole = std::numeric_limits<std::int64_t>::max();

void CopyStart(const fs::path& from, const fs::path& to, std::int64_t n_bytes) {
  core::RegularFile file(from);
  core::AtomicFile copy(to);
  std::vector<std::byte> block(kBlockBytes);
  while (n_bytes > 0) {
    const auto wanted = static_cast<std::size_t>(std::min<std::int64_t>(n_bytes, kBlockBytes));
    const std::size_t n = file.Read(std::span(block).first(wanted));
    if (n == 0) break;
    copy.Write(std::span(block).first(n));
    n_bytes -= static_cast<std::int64_t>(n);
  }
  copy.Commit();
}

std::vector<fs::path> FilesIn(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->is_regular_file(error)) files.push_back(it->path());
  }
  if (error) core::ThrowSystemError("list", folder, error);
  return files;
}

}  // namespace

fs::path WriteSnapshot(const fs::path& run_folder, const std::string& tag,
                       const run::CheckpointContents& contents, std::int64_t log_bytes) {
  if (tag.empty() || tag.front() == '.' || tag.find('/') != std::string::npos) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the tag '{}' of a snapshot is not a valid folder name", tag));
  }
  const fs::path folder = run_folder / kSnapshotFolder;
  run::CheckpointStore(folder).Replace(tag, [&](const fs::path& snapshot) {
    const fs::path checkpoint = snapshot / kCheckpointFolder / run::kLatest;
    core::CreateFolders(checkpoint);
    run::WriteCheckpointFiles(checkpoint, contents);
    core::WriteFileAtomically(snapshot / kRunConfigFile, contents.config);
    CopyStart(run_folder / run::kTrainingLogFile, snapshot / run::kTrainingLogFile, log_bytes);
  });
  return folder / tag;
}

void CreateFromSnapshot(const fs::path& snapshot, const fs::path& run_folder,
                        const fs::path& checkpoint) {
  if (fs::exists(run_folder)) {
    throw Error(ErrorCode::kUsage, fmt::format("'{}' exists already; give a new folder for the "
                                               "continued training",
                                               run_folder.string()));
  }
  const std::optional<run::Checkpoint> chosen =
      checkpoint.empty() ? run::CheckpointStore(snapshot / kCheckpointFolder).OpenLatest()
                         : run::Checkpoint::Open(checkpoint);
  if (!chosen) {
    throw Error(ErrorCode::kCheckpoint,
                fmt::format("'{}' has no checkpoint to continue from", snapshot.string()));
  }
  core::AtomicFolder run(run_folder);
  const fs::path latest = run.temporary() / kCheckpointFolder / run::kLatest;
  core::CreateFolders(latest);
  for (const fs::path& file : FilesIn(chosen->folder())) {
    CopyStart(file, latest / file.filename(), kWhole);
  }
  run::Checkpoint::Open(latest);  // the other run may have replaced files meanwhile
  core::WriteFileAtomically(run.temporary() / kRunConfigFile, chosen->config());
  // the checkpoint records how much of the log counts
  if (fs::exists(snapshot / run::kTrainingLogFile)) {
    CopyStart(snapshot / run::kTrainingLogFile, run.temporary() / run::kTrainingLogFile, kWhole);
  }
  run.Commit();
}

}  // namespace dp_bench::train
