// A checkpoint is a folder. It contains no code. Torch-free.
//   model.safetensors, ema.safetensors, normalizer.safetensors, optimizer.safetensors   tensors
//   gradients.safetensors   only inside an accumulation window: the sums so far
//   config.json     the resolved config of the run: enough to create the policy again
//   state.json      progress of the training
//   manifest.json   format and program version, SHA-256 and size of every other file, tensor
//                   shapes, and a SHA-256 of itself
// It contains no time and no path, so equal trainings give equal bytes.
// CheckpointStore keeps those of a training.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// The `checkpoints` folder of a run: `latest`, the k best, and those that are kept permanently. A
/// crash at any moment leaves a complete checkpoint. There is no index: the folder is listed.
///
/// Replacing the folder X takes four steps: (1) write X.tmp.<random>, fsync; (2) rename X to X.old;
/// (3) rename X.tmp.<random> to X; (4) remove X.old. After a kill -9 in any step, X or X.old is
/// complete: before (2) X, between (2) and (3) X.old, after (3) X. Readers use X.old if X is
/// missing or damaged. A rename that swaps two folders would save a step, but not every file system
/// supports it.
class CheckpointStore {
 public:
  /// `after_step` is called after each of the four steps above with its number; tests crash there.
  explicit CheckpointStore(std::filesystem::path folder,
                           std::function<void(int step)> after_step = {});

  const std::filesystem::path& folder() const { return folder_; }

  /// Whether the folder contains anything that may be a checkpoint.
  bool HasCheckpoints() const;

  /// Writes the checkpoint `name`, replacing any older one.
  void Save(std::string_view name, const CheckpointContents& contents);

  /// The same for any content: `fill` writes it into the given folder.
  void Replace(std::string_view name,
               const std::function<void(const std::filesystem::path& folder)>& fill);

  /// Does nothing if it does not exist.
  void Remove(std::string_view name);

  /// Notes that a training began here, until its first checkpoint. Without checkpoints and without
  /// this note, its checkpoints were removed.
  void BeginEmpty();
  bool IsBegunEmpty() const;
  void EndEmpty();  // the training ended without a checkpoint

  /// `latest`; if it is missing or damaged, the one that it replaced; else, with a warning, the
  /// complete checkpoint of the latest epoch. std::nullopt if there are no checkpoints. Throws
  /// Error{kCheckpoint} if all are damaged.
  std::optional<Checkpoint> OpenLatest() const;

  /// The folders of finished checkpoints that epochs name, the latest epoch first.
  std::vector<std::filesystem::path> OfEpochs() const;

  /// Cleans up after a crash: removes unfinished and replaced checkpoints, and restores X.old if X
  /// is missing or damaged. Only for the process that trains.
  void Repair();

 private:
  void AfterStep(int step) const;

  std::filesystem::path folder_;
  std::function<void(int)> after_step_;
};

inline constexpr std::string_view kLatest = "latest";

/// "epoch=0100", the prefix of the names of all checkpoints except `latest`.
std::string EpochName(int epoch);

}  // namespace dp_bench::run
