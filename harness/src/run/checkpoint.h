// A checkpoint is a folder. It contains no code. Torch-free.
//   model.safetensors, ema.safetensors, normalizer.safetensors, optimizer.safetensors   tensors
//   gradients.safetensors   only inside an accumulation window: the sums so far
//   config.json     the resolved config of the run: enough to create the policy again
//   state.json      progress of the training
//   manifest.json   format and program version, SHA-256 and size of every other file, tensor
//                   shapes, and a SHA-256 of itself
// It contains no time and no path, so equal trainings give equal bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "dp_bench/array.h"
#include "run/safetensors.h"

namespace dp_bench::run {

inline constexpr std::string_view kModelFile = "model.safetensors";
inline constexpr std::string_view kEmaFile = "ema.safetensors";
inline constexpr std::string_view kNormalizerFile = "normalizer.safetensors";
inline constexpr std::string_view kOptimizerFile = "optimizer.safetensors";
inline constexpr std::string_view kGradientsFile = "gradients.safetensors";

struct CheckpointContents {
  std::map<std::string, ArrayMap, std::less<>> tensors;  // file name -> tensors
  std::string config;                                    // JSON text
  std::string state;                                     // JSON text
  FloatStorage weights = FloatStorage::kFloat32;         // of the model and its EMA
};

/// Writes all files of a checkpoint into an existing folder; the caller renames the folder into
/// place (CheckpointStore). Throws Error{kIo}.
void WriteCheckpointFiles(const std::filesystem::path& folder, const CheckpointContents& contents);

/// A file as the manifest lists it.
struct ListedFile {
  std::string sha256;
  std::uint64_t bytes = 0;
};

/// The files that a manifest lists, by name. Checks the manifest's own SHA-256 and the file names.
/// `path` appears in messages only. Throws Error{kCheckpoint}.
std::map<std::string, ListedFile> ParseCheckpointManifest(std::string_view text,
                                                          const std::filesystem::path& path);

/// A checkpoint on disk. All its files matched their checksums.
class Checkpoint {
 public:
  /// Throws Error{kCheckpoint} naming the file that is missing, not in the manifest or changed,
  /// Error{kIo} naming one that cannot be read.
  static Checkpoint Open(const std::filesystem::path& folder);

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& config() const { return config_; }  // JSON text
  const std::string& state() const { return state_; }    // JSON text

  bool Has(std::string_view file) const { return checksums_.contains(file); }

  /// The SHA-256 of a file. Throws Error{kCheckpoint} if the checkpoint has no such file.
  const std::string& Sha256Of(std::string_view file) const;

  /// Throws Error{kCheckpoint} if the checkpoint has no such file.
  ArrayMap ReadTensors(std::string_view file) const;

 private:
  Checkpoint() = default;

  std::filesystem::path folder_;
  std::map<std::string, std::string, std::less<>> checksums_;  // file name -> SHA-256
  std::string config_;
  std::string state_;
};

}  // namespace dp_bench::run
