// What a film shows over the env's own picture: the plan, the path that came of it, step and score.
#pragma once

#include <cstddef>
#include <span>

#include "dp_bench/env.h"

namespace dp_bench::media {

/// The moment that a frame shows. Marks are (x, y) per hand, in [0, 1] or NaN, as in PictureMarks;
/// an env without any has n_marks 0 and empty spans.
struct FilmMoment {
  std::size_t n_marks = 0;      // M
  std::span<const float> path;  // [k, M, 2]: where the hands were, the latest last
  std::span<const float> plan;  // [m, M, 2]: where the actions until the next plan lead
  std::size_t n_executed = 0;   // of those m actions
  int step = 0;                 // env steps so far
  double score = 0.0;           // so far
  bool success = false;         // so far
};

/// Draws it over `frame`; lines, dots and letters grow with the picture.
void DrawOverlay(const FilmMoment& moment, RgbImage* frame);

}  // namespace dp_bench::media
