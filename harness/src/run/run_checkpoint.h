// Finds the checkpoint or the run that a path on the command line means. Verbs accept both.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace dp_bench::run {

/// Whether this is the folder of a checkpoint, not of a run.
bool IsCheckpointFolder(const std::filesystem::path& folder);

enum class CheckpointOrder { kBestFirst, kLatestFirst };

struct ChosenCheckpoint {
  std::filesystem::path folder;
  std::string reason;  // "the best of 5 by test_mean_score"; empty if the path was the checkpoint
};

/// The checkpoint that `path` means. A checkpoint: itself. A training or its folder `checkpoints`:
/// the best by checkpoint.topk, or else the latest. An evaluation: the checkpoint that it
/// evaluated. Throws Error{kUsage} for a folder with several trainings, Error{kCheckpoint} for any
/// other folder.
ChosenCheckpoint FindCheckpoint(const std::filesystem::path& path,
                                CheckpointOrder order = CheckpointOrder::kBestFirst);

/// The checkpoint and weights of an evaluation.
struct CheckpointChoice {
  std::filesystem::path folder;  // empty: a policy without weights
  std::string weights;           // "ema" or "model"
};

/// What the run with this manifest evaluated; none if the manifest does not say.
std::optional<CheckpointChoice> EvaluatedCheckpoint(const std::string& manifest);

/// The run folder that `path` means: for a training's folder `checkpoints`, for a checkpoint in it
/// or for a link to one, the training's folder; else `path`.
std::filesystem::path FindRunOf(const std::filesystem::path& path);

}  // namespace dp_bench::run
