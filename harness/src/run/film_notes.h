// What happened in a filmed episode, for whoever explains its film: the plans, where the hands went
// and what it earned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace dp_bench::run {

/// Of an episode of n steps and P plans, with M marks (PictureMarks) in pictures of the film's
/// size. A safetensors file holds its arrays under their names here:
///   plan_step    [P] int64               env steps executed when the plan was made
///   plan         [P, Ta, Da] float32     the action chunk; row i is meant for step plan_step + i
///   plan_marks   [P, Ta, M, 2] float32   ActionMarks of its actions when the plan was made
///   state_marks  [n + 1, M, 2] float32   StateMarks after 0, 1, ..., n steps
///   reward       [n] float64             of each step
///   success      [n] uint8               whether the step reported success
/// Marks are (x, y) in [0, 1] from the top left, or NaN. Without marks both *_marks are left out.
struct FilmNotes {
  std::int64_t n_action_steps = 0;  // Ta
  std::int64_t action_dim = 0;      // Da
  std::int64_t n_marks = 0;         // M; 0: the env has none
  std::vector<std::int64_t> plan_step = {};
  std::vector<float> plan = {};
  std::vector<float> plan_marks = {};
  std::vector<float> state_marks = {};
  std::vector<double> reward = {};
  std::vector<std::uint8_t> success = {};
};

/// media/<split>_<seed>.safetensors beside the film <split>_<seed>.mp4, relative to the run folder.
std::filesystem::path FilmNotesFile(const std::string& split, std::uint64_t seed);

/// Replaces the file as a whole. Throws Error{kIo}.
void WriteFilmNotes(const std::filesystem::path& path, const FilmNotes& notes);

/// Throws Error{kIo} when the file cannot be read, Error{kData} naming it and the array whose
/// presence, dtype, shape or values are not as above.
FilmNotes ReadFilmNotes(const std::filesystem::path& path);

/// The same for the bytes of a file that messages call `path`.
FilmNotes ParseFilmNotes(std::span<const std::byte> bytes, const std::filesystem::path& path);

}  // namespace dp_bench::run
