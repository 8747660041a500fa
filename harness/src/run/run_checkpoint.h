// From the path that a user gives to the checkpoint or the run that is meant: verbs take either.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace dp_bench::run {

/// Whether this is the folder of a checkpoint and not that of a run.
bool IsCheckpointFolder(const std::filesystem::path& folder);

enum class CheckpointOrder { kBestFirst, kLatestFirst };

struct ChosenCheckpoint {
  std::filesystem::path folder;
  std::string reason;  // "the best of 5 by test_mean_score"; empty when it was given itself
};

/// The checkpoint that `path` stands for: itself; of a training, or of its folder checkpoints, the
/// best by checkpoint.topk, or else the latest; of an evaluation the one that it evaluated. Throws
/// Error{kUsage} naming the seeds of a folder that holds several trainings, Error{kCheckpoint} with
/// what to give for one that is neither.
ChosenCheckpoint FindCheckpoint(const std::filesystem::path& path,
                                CheckpointOrder order = CheckpointOrder::kBestFirst);

/// What an evaluation rolls out.
struct CheckpointChoice {
  std::filesystem::path folder;
  std::string weights;  // "ema" or "model"
};

/// What the run with this manifest evaluated; nothing when it says nothing of it.
std::optional<CheckpointChoice> EvaluatedCheckpoint(const std::string& manifest);

/// The run folder that `path` stands for: that of the training for one of its checkpoints, else
/// itself.
std::filesystem::path FindRunOf(const std::filesystem::path& path);

}  // namespace dp_bench::run
