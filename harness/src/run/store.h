// The `checkpoints` folder of a run: `latest`, the k best and those kept for good, each written so
// that a crash at any moment leaves a complete one. Nothing points to another: what there is, is
// found by looking. Torch-free.
//
// Replacing the folder X takes four steps: (1) write X.tmp.<random>, fsync; (2) rename X to X.old;
// (3) rename X.tmp.<random> to X; (4) remove X.old. Whatever step a kill -9 hits, X or X.old is
// complete: before (2) X, between (2) and (3) X.old, after (3) X. Readers take X, and X.old where X
// is missing or damaged. A rename that swaps two folders would save a step, but not every file
// system has it.
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

  /// Whether anything that could be a checkpoint lies in the folder.
  bool HasCheckpoints() const;

  /// Writes the checkpoint `name`, replacing an older one of that name.
  void Save(std::string_view name, const CheckpointContents& contents);

  /// The same for a folder of any content, which `fill` writes into the folder it is given.
  void Replace(std::string_view name,
               const std::function<void(const std::filesystem::path& folder)>& fill);

  /// Throws nothing when there is none of that name.
  void Remove(std::string_view name);

  /// `latest`; where that is missing or damaged the one before it, else the complete one of the
  /// latest epoch, with a warning. std::nullopt when there are none; throws Error{kCheckpoint} when
  /// all that exist are damaged.
  std::optional<Checkpoint> OpenLatest() const;

  /// Brings the folder in order after a crash: removes what was never finished and what was
  /// replaced, and puts X.old back where X is missing or damaged. For the one process that trains.
  void Repair();

 private:
  void AfterStep(int step) const;
  std::vector<std::filesystem::path> OfEpochs() const;  // the latest epoch first

  std::filesystem::path folder_;
  std::function<void(int)> after_step_;
};

inline constexpr std::string_view kLatest = "latest";

/// "epoch=0100": how the names of all checkpoints but `latest` begin.
std::string EpochName(int epoch);

}  // namespace dp_bench::run
