// What --resume means: a run folder, or a checkpoint in one; everything else is refused before
// anything is written. And continuing from a chosen checkpoint instead of the latest one: what the
// training did after it is set aside, never deleted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "run/checkpoint.h"

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

inline constexpr std::string_view kSetAsideFolder = "set_aside";  // within a run folder

/// The checkpoint of `run_folder` that `name` means: a name in its folder `checkpoints`, the
/// beginning of exactly one of them ("epoch=0100"), or with a "/" the path of a checkpoint folder.
/// Throws Error{kUsage} listing the checkpoints.
std::filesystem::path FindCheckpointOfRun(const std::filesystem::path& run_folder,
                                          const std::string& name);

/// Throws Error{kCheckpoint} if the checkpoint was saved without a part that a training needs to
/// continue.
void RequireResumable(const run::Checkpoint& checkpoint, bool use_ema);

/// Throws Error{kUsage} naming every key, with both values, that a resumed training may not change:
/// it continues with the same samples in the same order, and with the same network. Free are the
/// keys that say how long and how it learns, what is measured, saved and logged, and where things
/// are. `before` is the run's resolved config, `now` the same with what the command line changes.
void RequireSameTraining(const nlohmann::json& before, const nlohmann::json& now);

/// The size of the run's log. Throws Error{kUsage} if it ends before the checkpoint, which then
/// belongs to another run.
std::int64_t RequireLogOf(const std::filesystem::path& run_folder,
                          const run::Checkpoint& checkpoint);

/// Makes `chosen` the latest checkpoint of the run, so that training.resume continues from it. If
/// the run has anything later, first puts this into `run_folder`/set_aside/<n>, which is a run
/// folder too: the whole log, the later checkpoints and the evaluation. Returns that folder; none
/// if nothing is later. After a crash at any moment, the same call completes the work.
///
/// Event files for TensorBoard stay: the continued training hides their later steps. Throws what
/// RequireLogOf throws. The caller holds the lock of the run folder.
std::optional<std::filesystem::path> RewindRun(const std::filesystem::path& run_folder,
                                               const run::Checkpoint& chosen);

/// Puts the evaluation of a run that has trained on, so that of earlier weights, into
/// `run_folder`/set_aside/<n>. Returns that folder; none if nothing was evaluated.
std::optional<std::filesystem::path> SetEvaluationAside(const std::filesystem::path& run_folder);

// A snapshot is the state of a training at one moment, as a separate run folder: config.json,
// logs.json.txt up to that moment, and checkpoints/latest with every part. Every command that
// accepts a run folder accepts a snapshot: in its place, copied, or on another machine. It
// corresponds to diffusion_policy's save_snapshot and create_from_snapshot, but without a pickled
// object: the continuing program supplies the code.

inline constexpr std::string_view kSnapshotFolder = "snapshots";  // within a run folder

/// Writes `run_folder`/snapshots/`tag`, completely or not at all, replacing an older one. It
/// includes the first `log_bytes` of the run's log. Throws Error{kIo}, and Error{kUsage} for a tag
/// that cannot be a folder's name.
std::filesystem::path WriteSnapshot(const std::filesystem::path& run_folder, const std::string& tag,
                                    const run::CheckpointContents& contents,
                                    std::int64_t log_bytes);

/// Creates `run_folder`, which must not exist, from a snapshot or from another run's latest
/// checkpoint, or from the checkpoint folder `checkpoint` of that run if it is not empty. The
/// source does not change. Training there with training.resume continues. Throws
/// Error{kCheckpoint} if there is no checkpoint, Error{kUsage} if `run_folder` exists.
void CreateFromSnapshot(const std::filesystem::path& snapshot,
                        const std::filesystem::path& run_folder,
                        const std::filesystem::path& checkpoint = {});

}  // namespace dp_bench::train
