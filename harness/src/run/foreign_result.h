// Results that other programs wrote, as runs: LeRobot, vla-eval, diffusion_policy, or a table.
#pragma once

#include <filesystem>
#include <string_view>

#include "run/run_folder.h"

namespace dp_bench::run {

/// In a result with several tasks, episode i of the k-th task by name has the seed
/// k * kSeedsPerTask + i.
constexpr std::uint64_t kSeedsPerTask = 1'000'000;

/// Reads one of these files, recognized by its content:
///
/// - LeRobot's eval_info.json: `per_episode` with seeds (until 0.3), or `per_task` without;
/// - the result JSON of vla-eval: a seed is the index of an initial state;
/// - diffusion_policy's eval_log.json: an episode succeeded if its highest reward is at least 1;
/// - a CSV with the columns seed and success (0, 1, true, false), and optionally score and task.
///
/// All episodes are of the split "test". Without a score, success counts as 1. `seed_origin` names
/// the program. Throws Error{kData} naming file and place for anything else, Error{kIo} if the file
/// cannot be read.
RunFolder ReadForeignResult(const std::filesystem::path& file);

/// The same for the text of `file`.
RunFolder ParseForeignResult(std::string_view text, const std::filesystem::path& file);

/// What `compare` and `gate` take: a run folder, a file for ReadForeignResult, or a folder with
/// eval_info.json or diffusion_policy's eval_log.json. Errors as in both.
RunFolder ReadResult(const std::filesystem::path& path);

}  // namespace dp_bench::run
