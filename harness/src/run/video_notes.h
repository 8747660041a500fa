// The plans, motion and rewards of an episode, shown next to its video.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dp_bench::run {

/// An episode of n steps and P plans, with M marks (Env::Marks) in frames of the video's size.
/// The safetensors file has these arrays:
///   plan_step    [P] int64               env steps executed when the plan was made
///   plan         [P, Ta, Da] float32     the action chunk; row i is meant for step plan_step + i
///   plan_marks   [P, Ta, M, 2] float32   those of its actions when the plan was made
///   state_marks  [n + 1, M, 2] float32   those of the state after 0, 1, ..., n steps
///   reward       [n] float64             of each step
///   success      [n] uint8               whether the step reported success
/// Marks are (x, y) in [0, 1] from the top left, or NaN. Without marks both *_marks are missing.
struct VideoNotes {
  std::int64_t n_action_steps = 0;  // Ta
  std::int64_t action_dim = 0;      // Da
  std::int64_t n_marks = 0;         // M; 0: the env has no marks
  std::vector<std::int64_t> plan_step = {};
  std::vector<float> plan = {};
  std::vector<float> plan_marks = {};
  std::vector<float> state_marks = {};
  std::vector<double> reward = {};
  std::vector<std::uint8_t> success = {};
};

/// media/<split>_<seed>.safetensors, next to the video <split>_<seed>.mp4, relative to the run
/// folder.
std::filesystem::path VideoNotesFile(const std::string& split, std::uint64_t seed);

/// Writes the file atomically. Throws Error{kIo}.
void WriteVideoNotes(const std::filesystem::path& path, const VideoNotes& notes);

/// Throws Error{kIo} if the file cannot be read, Error{kData} naming the file and the array that is
/// missing or has another dtype, shape or range of values.
VideoNotes ReadVideoNotes(const std::filesystem::path& path);

}  // namespace dp_bench::run
