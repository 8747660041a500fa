// The manifest and its checks, and how a checkpoint replaces another one; see checkpoint.h.
#include "run/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "core/atomic_file.h"
#include "core/console.h"
#include "core/errors.h"
#include "core/json.h"
#include "core/regular_file.h"
#include "core/sha256.h"
#include "dp_bench/build_id.h"
#include "run/run_files.h"

namespace dp_bench::run {

namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr int kFormatVersion = 2;
constexpr int kFirstSealedVersion = 2;
constexpr std::size_t kMaxJsonBytes = 64U << 20;
constexpr std::size_t kHashBlockBytes = 1U << 20;
constexpr const char* kSealKey = "sha256";

[[noreturn]] void Fail(const fs::path& path, std::string_view what) {
  throw CheckpointError("'{}' {}", path.string(), what);
}

std::string HashFile(core::RegularFile& file) {
  core::Sha256 hash;
  std::vector<std::byte> block(std::min<std::uint64_t>(kHashBlockBytes, file.size()));
  while (const std::size_t n = file.Read(block)) hash.Update(std::span(block).first(n));
  return hash.HexDigest();
}

Json Describe(const ArrayMap& tensors, FloatStorage storage) {
  Json json = Json::object();
  for (const auto& [name, array] : tensors) {
    const bool is_float32 = array.dtype() == DType::kFloat32;
    json[name] = {{"dtype", is_float32 ? Name(storage) : Name(array.dtype())},
                  {"shape", array.shape()}};
  }
  return json;
}

/// The manifest with the SHA-256 of the rest of its text, which detects changes in the manifest
/// itself.
std::string SealedText(Json manifest) {
  manifest.erase(kSealKey);
  const std::string rest = manifest.dump(1);
  manifest[kSealKey] = core::Sha256Hex(rest);
  return manifest.dump(1) + "\n";
}

std::map<std::string, ListedFile> ReadManifest(const fs::path& path) {
  if (!fs::exists(path)) {
    Fail(path, "is missing: this is not a checkpoint, or writing it was interrupted");
  }
  return ParseCheckpointManifest(core::ReadTextFile(path, kMaxJsonBytes), path);
}

void VerifyFile(const fs::path& path, const ListedFile& listed) {
  if (!fs::exists(path)) Fail(path, "is listed in the manifest but missing");
  core::RegularFile file(path);
  if (file.size() != listed.bytes) {
    Fail(path, fmt::format("has {} bytes, the manifest says {}: the file is damaged", file.size(),
                           listed.bytes));
  }
  if (HashFile(file) != listed.sha256) {
    Fail(path, "does not match its SHA-256 in the manifest: the file is damaged or was edited");
  }
}

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

/// The epoch of a name such as "epoch=0100-test_mean_score=0.871"; -1 for any other name.
int EpochOf(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kEpochPrefix)) return -1;
  int epoch = -1;
  std::from_chars(name.data() + kEpochPrefix.size(), name.data() + name.size(), epoch);
  return epoch;
}

}  // namespace

std::map<std::string, ListedFile> ParseCheckpointManifest(std::string_view text,
                                                          const fs::path& path) {
  const std::string what = fmt::format("'{}' is damaged", path.string());
  const Json json = core::ParseJson(text, what, ErrorCode::kCheckpoint);
  const core::JsonView manifest(json, what, ErrorCode::kCheckpoint);
  const int version = manifest.Get<int>("format_version");
  if (version < 1 || version > kFormatVersion) {
    Fail(path, fmt::format("has format version {}, this dp_bench reads up to {}", version,
                           kFormatVersion));
  }
  if (version >= kFirstSealedVersion && SealedText(json) != text) {
    Fail(path, "does not match its own SHA-256: the file is damaged or was edited");
  }
  std::map<std::string, ListedFile> files;
  for (const auto& [name, entry] : manifest.At("files").Members()) {
    if (name.empty() || name.find('/') != std::string::npos || name.front() == '.' ||
        name.find('\0') != std::string::npos) {
      Fail(path, fmt::format("lists the file name '{}', which points outside of the folder", name));
    }
    files[name] = {.sha256 = entry.Get<std::string>("sha256"),
                   .bytes = entry.Get<std::uint64_t>("bytes")};
  }
  return files;
}

void WriteCheckpointFiles(const fs::path& folder, const CheckpointContents& contents) {
  Json shapes = Json::object();
  std::vector<std::string> files = {std::string(kConfigFile), std::string(kStateFile)};
  core::WriteFileAtomically(folder / kConfigFile, contents.config);
  core::WriteFileAtomically(folder / kStateFile, contents.state);
  for (const auto& [file, tensors] : contents.tensors) {
    const bool is_weights = file == kModelFile || file == kEmaFile;
    const FloatStorage storage = is_weights ? contents.weights : FloatStorage::kFloat32;
    WriteSafetensors(folder / file, tensors, {{"format", "pt"}}, storage);
    shapes[file] = Describe(tensors, storage);
    files.push_back(file);
  }

  // hash what is on disk
  Json manifest = {{"format_version", kFormatVersion}, {"dp_bench_version", kVersion}};
  manifest["files"] = Json::object();
  for (const std::string& file : files) {
    core::RegularFile written(folder / file);
    manifest["files"][file] = {{"sha256", HashFile(written)}, {"bytes", written.size()}};
  }
  manifest["tensors"] = std::move(shapes);
  core::WriteFileAtomically(folder / kManifestFile, SealedText(std::move(manifest)));
}

Checkpoint Checkpoint::Open(const fs::path& folder) {
  if (!fs::is_directory(folder)) Fail(folder, "is not a checkpoint folder");
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  for (const auto& [name, listed] : ReadManifest(folder / kManifestFile)) {
    VerifyFile(folder / name, listed);
    checkpoint.checksums_[name] = listed.sha256;
  }
  for (const std::string_view file : {kConfigFile, kStateFile, kNormalizerFile}) {
    if (!checkpoint.Has(file)) Fail(folder / file, "is not listed in the checkpoint's manifest");
  }
  // a checkpoint exported for inference has one set of weights only
  if (!checkpoint.Has(kModelFile) && !checkpoint.Has(kEmaFile)) {
    Fail(folder / kModelFile, "is not listed in the checkpoint's manifest, nor are EMA weights");
  }
  checkpoint.config_ = core::ReadTextFile(folder / kConfigFile, kMaxJsonBytes);
  checkpoint.state_ = core::ReadTextFile(folder / kStateFile, kMaxJsonBytes);
  return checkpoint;
}

const std::string& Checkpoint::Sha256Of(std::string_view file) const {
  const auto found = checksums_.find(file);
  if (found == checksums_.end()) {
    Fail(folder_ / file, "does not exist: the checkpoint was saved without it");
  }
  return found->second;
}

ArrayMap Checkpoint::ReadTensors(std::string_view file) const {
  if (!Has(file)) Fail(folder_ / file, "does not exist: the checkpoint was saved without it");
  return ReadSafetensors(folder_ / file).tensors;
}

std::string EpochName(int epoch) { return fmt::format("{}{:04}", kEpochPrefix, epoch); }

CheckpointStore::CheckpointStore(fs::path folder, std::function<void(int)> after_step)
    : folder_(std::move(folder)), after_step_(std::move(after_step)) {}

bool CheckpointStore::HasCheckpoints() const {
  for (const fs::path& entry : core::EntriesOf(folder_)) {
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
        core::LogWarning("no complete '{}': the training continues from '{}'", latest.string(),
                         candidate.string());
      }
      return checkpoint;
    } catch (const Error& error) {
      core::LogWarning(error.what());
      problems += std::string(problems.empty() ? "" : "; ") + error.what();
    }
  }
  if (problems.empty()) return std::nullopt;
  throw CheckpointError(
      "no complete checkpoint to resume from in '{}': {}. Start again in another folder.",
      folder_.string(), problems);
}

std::vector<fs::path> CheckpointStore::OfEpochs() const {
  std::vector<fs::path> paths = core::EntriesOf(folder_);
  std::erase_if(paths, [](const fs::path& path) {
    return EpochOf(path) < 0 || core::IsTemporaryName(path.filename().string());
  });
  std::ranges::sort(paths, [](const fs::path& a, const fs::path& b) {
    return std::pair(EpochOf(a), a) > std::pair(EpochOf(b), b);
  });
  return paths;
}

void CheckpointStore::Repair() {
  for (const fs::path& entry : core::EntriesOf(folder_)) {
    if (core::IsTemporaryName(entry.filename().string())) core::RemoveAll(entry);
  }
  for (const fs::path& old : core::EntriesOf(folder_)) {
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
