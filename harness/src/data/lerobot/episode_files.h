// The files of a LeRobot dataset that is written: put together from one file per episode.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "data/lerobot/meta_files.h"

namespace dp_bench::lerobot {

/// Writes the data files into `root`, and notes in the episodes where they are. `file_of` gives the
/// table of an episode. Throws Error{kIo}.
void WriteDataFiles(const std::filesystem::path& root,
                    const std::function<std::filesystem::path(std::int64_t)>& file_of,
                    WrittenDataset* dataset);

/// Writes the video files of a camera into `root`, without encoding anything again, and notes in
/// the episodes where they are. `file_of` gives the video of an episode, which has all its frames.
/// Throws Error{kMedia} or Error{kIo}.
void WriteVideoFiles(const std::filesystem::path& root, const std::string& camera,
                     const std::function<std::filesystem::path(std::int64_t)>& file_of,
                     WrittenDataset* dataset);

}  // namespace dp_bench::lerobot
