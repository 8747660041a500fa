// The manifest and its checks; see checkpoint.h for the format.
#include "checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "core/atomic_file.h"
#include "core/sha256.h"
#include "dp_bench/build_id.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::json;

constexpr int kFormatVersion = 2;
constexpr int kFirstSealedVersion = 2;
constexpr std::size_t kMaxJsonBytes = 64U << 20;
constexpr std::size_t kHashBlockBytes = 1U << 20;
constexpr std::string_view kManifestFile = "manifest.json";
constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kStateFile = "state.json";
constexpr const char* kSealKey = "sha256";

[[noreturn]] void Fail(const fs::path& path, std::string_view what) {
  throw Error(ErrorCode::kCheckpoint, fmt::format("'{}' {}", path.string(), what));
}

std::string HashFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Fail(path, "of the checkpoint cannot be opened");
  Sha256 hash;
  std::vector<char> block(kHashBlockBytes);
  while (file) {
    file.read(block.data(), static_cast<std::streamsize>(block.size()));
    hash.Update(std::as_bytes(std::span(block.data(), static_cast<std::size_t>(file.gcount()))));
  }
  if (file.bad()) Fail(path, "of the checkpoint cannot be read");
  return hash.HexDigest();
}

Json Describe(const ArrayMap& tensors) {
  Json json = Json::object();
  for (const auto& [name, array] : tensors) {
    json[name] = {{"dtype", Name(array.dtype())}, {"shape", array.shape()}};
  }
  return json;
}

/// The text of a manifest that holds the SHA-256 of all the rest of it, so that a changed byte is
/// found there as well as in the files that it lists.
std::string SealedText(Json manifest) {
  manifest.erase(kSealKey);
  const std::string rest = manifest.dump(1);
  manifest[kSealKey] = Sha256Hex(std::as_bytes(std::span(rest)));
  return manifest.dump(1) + "\n";
}

/// File name -> {sha256, bytes} of the manifest, its form checked.
Json ReadManifest(const fs::path& path) {
  if (!fs::is_regular_file(path)) {
    Fail(path, "is missing: this is not a checkpoint, or its writing was interrupted");
  }
  Json manifest;
  try {
    const std::string text = ReadTextFile(path, kMaxJsonBytes);
    manifest = Json::parse(text);
    const int version = manifest.at("format_version").get<int>();
    if (version < 1 || version > kFormatVersion) {
      Fail(path, fmt::format("has format version {}, this dp_bench reads up to {}", version,
                             kFormatVersion));
    }
    if (version >= kFirstSealedVersion && SealedText(manifest) != text) {
      Fail(path, "does not match its own SHA-256: the file is damaged or was edited");
    }
    for (const auto& [name, entry] : manifest.at("files").items()) {
      if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') {
        Fail(path, fmt::format("lists the file name '{}', which leaves the folder", name));
      }
      entry.at("sha256").get_ref<const std::string&>();
      entry.at("bytes").get<std::uint64_t>();
    }
  } catch (const Json::exception& error) {
    Fail(path, fmt::format("is damaged: {}", error.what()));
  }
  return manifest.at("files");
}

void VerifyFile(const fs::path& path, const Json& entry) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error) Fail(path, "is listed in the manifest but missing");
  const auto wanted = entry.at("bytes").get<std::uint64_t>();
  if (bytes != wanted) {
    Fail(path,
         fmt::format("has {} bytes, its manifest says {}: the file is damaged", bytes, wanted));
  }
  if (HashFile(path) != entry.at("sha256").get_ref<const std::string&>()) {
    Fail(path, "does not match the SHA-256 of its manifest: the file is damaged or was edited");
  }
}

}  // namespace

void WriteCheckpointFiles(const fs::path& folder, const CheckpointContents& contents) {
  Json shapes = Json::object();
  std::vector<std::string> files = {std::string(kConfigFile), std::string(kStateFile)};
  WriteFileAtomically(folder / kConfigFile, contents.config);
  WriteFileAtomically(folder / kStateFile, contents.state);
  for (const auto& [file, tensors] : contents.tensors) {
    WriteSafetensors(folder / file, tensors, {{"format", "pt"}});
    shapes[file] = Describe(tensors);
    files.push_back(file);
  }

  // the checksums are taken from the disk's content, so that a bad write is found on reading
  Json manifest = {{"format_version", kFormatVersion}, {"dp_bench_version", kVersion}};
  manifest["files"] = Json::object();
  for (const std::string& file : files) {
    manifest["files"][file] = {{"sha256", HashFile(folder / file)},
                               {"bytes", fs::file_size(folder / file)}};
  }
  manifest["tensors"] = std::move(shapes);
  WriteFileAtomically(folder / kManifestFile, SealedText(std::move(manifest)));
}

Checkpoint Checkpoint::Open(const fs::path& folder) {
  if (!fs::is_directory(folder)) Fail(folder, "is not a checkpoint folder");
  const Json files = ReadManifest(folder / kManifestFile);
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  for (const auto& [name, entry] : files.items()) {
    VerifyFile(folder / name, entry);
    checkpoint.checksums_[name] = entry.at("sha256").get<std::string>();
  }
  for (const std::string_view file : {kConfigFile, kStateFile, kNormalizerFile}) {
    if (!checkpoint.Has(file)) Fail(folder / file, "is not listed in the checkpoint's manifest");
  }
  // one that was exported for inference has only the weights that are evaluated
  if (!checkpoint.Has(kModelFile) && !checkpoint.Has(kEmaFile)) {
    Fail(folder / kModelFile, "is not listed in the checkpoint's manifest, nor are EMA weights");
  }
  checkpoint.config_ = ReadTextFile(folder / kConfigFile, kMaxJsonBytes);
  checkpoint.state_ = ReadTextFile(folder / kStateFile, kMaxJsonBytes);
  return checkpoint;
}

ArrayMap Checkpoint::ReadTensors(std::string_view file) const {
  if (!Has(file)) Fail(folder_ / file, "does not exist: the checkpoint was written without it");
  return ReadSafetensors(folder_ / file).tensors;
}

}  // namespace dp_bench
