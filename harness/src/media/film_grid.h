// Several films side by side in one.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "media/drawing.h"

namespace dp_bench {

/// One tile of the grid.
struct GridFilm {
  std::filesystem::path path;
  Colour frame_colour = {};  // of the line around it
  std::string caption = {};  // as DrawCaption knows it; drawn in its corner
  int n_repeats = 1;         // how often each picture is shown: 3 is slow motion
};

struct FilmGridOptions {
  int n_columns = 4;
  int crf = 22;
};

/// Writes a film (.mp4 or .gif) of all films at once, in rows of `n_columns`, at the rate of the
/// first; each tile has the size of the largest film, those that end stay at their last picture.
/// Throws Error{kMedia} naming what cannot be read or written, Error{kUsage} without films.
void WriteFilmGrid(const std::vector<GridFilm>& films, const std::filesystem::path& path,
                   const FilmGridOptions& options = {});

}  // namespace dp_bench
