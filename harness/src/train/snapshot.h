// A snapshot is a training at one moment as a run folder of its own: config.json, logs.json.txt up
// to there, and checkpoints/latest with every part. So whatever takes a run folder takes a
// snapshot, in its place, copied, or on another machine. It is diffusion_policy's save_snapshot and
// create_from_snapshot, without a pickled object: the code is that of the program which continues.
// Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "run/checkpoint.h"

namespace dp_bench::train {

inline constexpr std::string_view kSnapshotFolder = "snapshots";  // of a run folder

/// Writes `run_folder`/snapshots/`tag`, whole or not at all, in place of an older one. The first
/// `log_bytes` of the run's log go into it. Throws Error{kIo}, and Error{kUsage} for a tag that
/// cannot be a folder's name.
std::filesystem::path WriteSnapshot(const std::filesystem::path& run_folder, const std::string& tag,
                                    const run::CheckpointContents& contents,
                                    std::int64_t log_bytes);

/// Makes `run_folder`, which must not exist, from a snapshot or from another run's latest
/// checkpoint; that one stays as it is. Training there with training.resume continues. Throws
/// Error{kCheckpoint} when there is nothing to continue from, Error{kUsage} when `run_folder`
/// exists.
void CreateFromSnapshot(const std::filesystem::path& snapshot,
                        const std::filesystem::path& run_folder);

}  // namespace dp_bench::train
