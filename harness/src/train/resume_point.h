// What --resume means: a run folder, or a checkpoint in one. Everything else is refused before
// anything is written.
#pragma once

#include <filesystem>
#include <string>

namespace dp_bench::train {

struct ResumePoint {
  std::filesystem::path run_folder;
  std::filesystem::path checkpoint;  // empty: the latest
};

/// `path` is a run folder or a snapshot, whose checkpoint `name` is meant (the latest if it is
/// empty), a run's folder `checkpoints`, or a checkpoint in it. Links are followed. Throws
/// Error{kUsage} for a policy outside of a run, an evaluation, or a folder that is no run, and
/// Error{kCheckpoint} for a run without its checkpoints.
ResumePoint FindResumePoint(const std::filesystem::path& path, const std::string& name);

/// Throws as FindResumePoint unless the folder has a training that can be continued, or one that
/// was stopped before its first checkpoint. Checkpoints are not read.
void RequireTraining(const std::filesystem::path& run_folder);

/// For a folder without checkpoints in which a training is to start anew: throws Error{kCheckpoint}
/// if anything was trained or evaluated there.
void RequireNothingToLose(const std::filesystem::path& run_folder);

}  // namespace dp_bench::train
