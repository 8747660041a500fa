// A snapshot is the state of a training at one moment, as a separate run folder: config.json,
// logs.json.txt up to that moment, and checkpoints/latest with every part. Every command that
// accepts a run folder accepts a snapshot: in its place, copied, or on another machine. It
// corresponds to diffusion_policy's save_snapshot and create_from_snapshot, but without a pickled
// object: the continuing program supplies the code. Torch-free.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "run/checkpoint.h"

namespace dp_bench::train {

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
