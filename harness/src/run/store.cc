// The replacement protocol of store.h and its recovery.
#include "run/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/system_error.h"
#include "dp_bench/error.h"

namespace dp_bench::run {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kOldSuffix = ".old";
constexpr std::string_view kEpochPrefix = "epoch=";
constexpr const char* kBegunEmpty = "no_checkpoint_yet";

fs::path OldOf(fs::path path) { return path += kOldSuffix; }

bool IsComplete(const fs::path& folder) {
  try {
    Checkpoint::Open(folder);
    return true;
  } catch (const Error& error) {
    core::LogWarning(error.what());
    return false;
  }
}

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error == std::errc::no_such_file_or_directory) return entries;
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    entries.push_back(it->path());
  }
  if (error) core::ThrowSystemError("list", folder, error);
  return entries;
}

/// The epoch of a name such as "epoch=0100-test_mean_score=0.871"; -1 for any other name.
int EpochOf(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kEpochPrefix)) return -1;
  int epoch = -1;
  std::from_chars(name.data() + kEpochPrefix.size(), name.data() + name.size(), epoch);
  return epoch;
}

}  // namespace

std::string EpochName(int epoch) { return fmt::format("{}{:04}", kEpochPrefix, epoch); }

CheckpointStore::CheckpointStore(fs::path folder, std::function<void(int)> after_step)
    : folder_(std::move(folder)), after_step_(std::move(after_step)) {}

bool CheckpointStore::HasCheckpoints() const {
  for (const fs::path& entry : EntriesOf(folder_)) {
    if (fs::is_directory(entry) && !core::IsTemporaryName(entry.filename().string())) return true;
  }
  return false;
}

void CheckpointStore::Save(std::string_view name, const CheckpointContents& contents) {
  Replace(name, [&](const fs::path& folder) { WriteCheckpointFiles(folder, contents); });
}

void CheckpointStore::Replace(std::string_view name,
                              const std::function<void(const fs::path&)>& fill) {
  const fs::path target = folder_ / name;
  const fs::path old = OldOf(target);
  core::AtomicFolder fresh(target);
  fill(fresh.temporary());
  AfterStep(1);
  const bool has_old = fs::exists(target);
  if (has_old) core::RemoveAll(old);  // `target` is complete after Repair and earlier calls
  try {
    if (has_old) core::RenameDurably(target, old);
    AfterStep(2);
    fresh.Commit();
  } catch (const Error&) {
    std::error_code ignored;  // Repair would do it too
    if (has_old && !fs::exists(target, ignored)) fs::rename(old, target, ignored);
    throw;
  }
  AfterStep(3);
  EndEmpty();
  core::RemoveAll(old);
  AfterStep(4);
}

void CheckpointStore::Remove(std::string_view name) { core::RemoveAll(folder_ / name); }

void CheckpointStore::BeginEmpty() {
  core::CreateFolders(folder_);
  core::WriteFileAtomically(folder_ / kBegunEmpty, std::string_view());
}

bool CheckpointStore::IsBegunEmpty() const { return fs::exists(folder_ / kBegunEmpty); }

void CheckpointStore::EndEmpty() { core::RemoveAll(folder_ / kBegunEmpty); }

std::optional<Checkpoint> CheckpointStore::OpenLatest() const {
  const fs::path latest = folder_ / kLatest;
  std::vector<fs::path> candidates = {latest, OldOf(latest)};
  std::erase_if(candidates, [](const fs::path& path) { return !fs::exists(path); });
  const std::vector<fs::path> of_epochs = OfEpochs();
  candidates.insert(candidates.end(), of_epochs.begin(), of_epochs.end());

  std::string problems;
  for (const fs::path& candidate : candidates) {
    try {
      Checkpoint checkpoint = Checkpoint::Open(candidate);
      if (EpochOf(candidate) >= 0) {
        core::LogWarning(fmt::format("no complete '{}': the training continues from '{}'",
                                     latest.string(), candidate.string()));
      }
      return checkpoint;
    } catch (const Error& error) {
      core::LogWarning(error.what());
      problems += std::string(problems.empty() ? "" : "; ") + error.what();
    }
  }
  if (problems.empty()) return std::nullopt;
  throw Error(
      ErrorCode::kCheckpoint,
      fmt::format(
          "no complete checkpoint to resume from in '{}': {}. Start again in another folder.",
          folder_.string(), problems));
}

std::vector<fs::path> CheckpointStore::OfEpochs() const {
  std::vector<fs::path> paths = EntriesOf(folder_);
  std::erase_if(paths, [](const fs::path& path) {
    return EpochOf(path) < 0 || core::IsTemporaryName(path.filename().string());
  });
  std::ranges::sort(paths, [](const fs::path& a, const fs::path& b) {
    return std::pair(EpochOf(a), a) > std::pair(EpochOf(b), b);
  });
  return paths;
}

void CheckpointStore::Repair() {
  for (const fs::path& entry : EntriesOf(folder_)) {
    if (core::IsTemporaryName(entry.filename().string())) core::RemoveAll(entry);
  }
  for (const fs::path& old : EntriesOf(folder_)) {
    if (old.extension() != kOldSuffix) continue;
    fs::path current = old;
    current.replace_extension();
    if (fs::exists(current) && IsComplete(current)) {
      core::RemoveAll(old);
    } else if (IsComplete(old)) {
      core::RemoveAll(current);
      core::RenameDurably(old, current);
    }
  }
}

void CheckpointStore::AfterStep(int step) const {
  if (after_step_) after_step_(step);
}

}  // namespace dp_bench::run
