// The replacement protocol of store.h and its recovery.
#include "checkpoint/store.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/log.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kOldSuffix = ".old";

fs::path OldOf(fs::path path) { return path += kOldSuffix; }

bool IsComplete(const fs::path& folder) {
  try {
    Checkpoint::Open(folder);
    return true;
  } catch (const Error& error) {
    LogWarning(error.what());
    return false;
  }
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  if (!fs::is_directory(folder)) return entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  return entries;
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path folder, std::function<void(int)> after_step)
    : folder_(std::move(folder)), after_step_(std::move(after_step)) {}

bool CheckpointStore::HasCheckpoints() const {
  for (const fs::path& entry : EntriesOf(folder_)) {
    if (fs::is_directory(entry) && !IsTemporaryName(entry.filename().string())) return true;
  }
  return false;
}

void CheckpointStore::Save(std::string_view name, const CheckpointContents& contents) {
  const fs::path target = folder_ / name;
  const fs::path old = OldOf(target);
  AtomicFolder fresh(target);
  WriteCheckpointFiles(fresh.temporary(), contents);
  AfterStep(1);
  if (fs::exists(target)) {
    fs::remove_all(old);  // `target` is complete: Repair and earlier calls saw to it
    RenameDurably(target, old);
  }
  AfterStep(2);
  fresh.Commit();
  AfterStep(3);
  fs::remove_all(old);
  AfterStep(4);
}

void CheckpointStore::Remove(std::string_view name) { fs::remove_all(folder_ / name); }

std::optional<Checkpoint> CheckpointStore::OpenLatest() const {
  const fs::path latest = folder_ / kLatest;
  std::string problems;
  for (const fs::path& candidate : {latest, OldOf(latest)}) {
    if (!fs::exists(candidate)) continue;
    try {
      return Checkpoint::Open(candidate);
    } catch (const Error& error) {
      LogWarning(error.what());
      problems += std::string(problems.empty() ? "" : "; ") + error.what();
    }
  }
  if (problems.empty()) return std::nullopt;
  throw Error(ErrorCode::kCheckpoint,
              fmt::format("no complete checkpoint to resume from in '{}': {}. Give one of the best "
                          "checkpoints there by name, or start anew in another folder.",
                          folder_.string(), problems));
}

void CheckpointStore::Repair() {
  for (const fs::path& entry : EntriesOf(folder_)) {
    if (IsTemporaryName(entry.filename().string())) fs::remove_all(entry);
  }
  for (const fs::path& old : EntriesOf(folder_)) {
    if (old.extension() != kOldSuffix) continue;
    fs::path current = old;
    current.replace_extension();
    if (fs::exists(current) && IsComplete(current)) {
      fs::remove_all(old);
    } else if (IsComplete(old)) {
      fs::remove_all(current);
      RenameDurably(old, current);
    }
  }
}

void CheckpointStore::AfterStep(int step) const {
  if (after_step_) after_step_(step);
}

}  // namespace dp_bench
