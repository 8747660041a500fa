// The `checkpoints` folder of a run: `latest`, the k best, and those that are kept permanently. A
// crash at any moment leaves a complete checkpoint. There is no index: the folder is listed.
// Torch-free.
//
// Replacing the folder X takes four steps: (1) write X.tmp.<random>, fsync; (2) rename X to X.old;
// (3) rename X.tmp.<random> to X; (4) remove X.old. After a kill -9 in any step, X or X.old is
// complete: before (2) X, between (2) and (3) X.old, after (3) X. Readers use X.old if X is missing
// or damaged. A rename that swaps two folders would save a step, but not every file system supports
// it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "run/checkpoint.h"

namespace dp_bench::run {

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

  /// Cleans up after a crash: removes unfinished and replaced checkpoints, and restores X.old if X
  /// is missing or damaged. Only for the process that trains.
  void Repair();

 private:
  void AfterStep(int step) const;
  std::vector<std::filesystem::path> OfEpochs() const;  // the latest epoch first

  std::filesystem::path folder_;
  std::function<void(int)> after_step_;
};

inline constexpr std::string_view kLatest = "latest";

/// "epoch=0100", the prefix of the names of all checkpoints except `latest`.
std::string EpochName(int epoch);

}  // namespace dp_bench::run
