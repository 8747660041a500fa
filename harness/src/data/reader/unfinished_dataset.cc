#include "data/reader/unfinished_dataset.h"

#include <nlohmann/json.hpp>
#include <string>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/folder_lock.h"

namespace dp_bench::reader {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kCompleteFile = "complete";  // the dataset needs nothing more of the folder

bool IsFinished(const fs::path& folder) {
  return fs::exists(folder / kCompleteFile) || (fs::is_directory(folder) && fs::is_empty(folder));
}

// The mark goes last, so that a killed removal is known as one.
void RemoveFinished(const fs::path& folder) {
  for (const fs::path& entry : core::EntriesOf(folder)) {
    if (entry.filename() != kCompleteFile) core::RemoveAll(entry);
  }
  core::RemoveAll(folder);
}

}  // namespace

UnfinishedDataset::UnfinishedDataset(const fs::path& path, bool is_folder, const json& identity)
    : folder_(core::Beside(path, ".unfinished")) {
  if (path.empty()) throw UsageError("the path of the dataset to write is empty; give one");
  constexpr std::size_t kMaxIdentityBytes = std::size_t{64} << 20;
  const bool is_free = !fs::exists(fs::symlink_status(path)) ||
                       (is_folder && fs::is_directory(path) && fs::is_empty(path));
  if (!is_free) {
    if (IsFinished(folder_)) RemoveFinished(folder_);
    throw UsageError("{} exists; give another output, or remove this one", path.string());
  }
  core::CreateFolders(folder_);
  lock_ = std::make_unique<core::FolderLock>(folder_);
  core::RemoveTemporaryFiles(folder_);
  const std::string text = identity.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
  const fs::path file = folder_ / "writer.json";
  if (!fs::exists(file)) core::WriteFileAtomically(file, text);
  if (core::ReadTextFile(file, kMaxIdentityBytes) == text) return;
  throw UsageError(
      "{} holds an unfinished dataset of another source or with other features or params; remove "
      "it to begin again",
      folder_.string());
}

UnfinishedDataset::~UnfinishedDataset() = default;

void UnfinishedDataset::Publish(const std::function<void()>& move) {
  core::WriteFileAtomically(folder_ / kCompleteFile, "");
  move();
  lock_.reset();
  RemoveFinished(folder_);
}

void RequireEpisodes(std::int64_t n_episodes, const fs::path& path) {
  if (n_episodes > 0) return;
  throw UsageError("{} would have no episode", path.string());
}

void MoveDurably(const fs::path& temporary, const fs::path& path) {
  core::FsyncFile(temporary);
  core::RenameDurably(temporary, path);
}

}  // namespace dp_bench::reader
