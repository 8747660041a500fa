// What a video shows over the env's own image: the plan, the executed path, the step and the
// score.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "dp_bench/env.h"
#include "media/drawing.h"

namespace dp_bench::media {

/// The moment that a frame shows. Marks are (x, y) per hand, in [0, 1] or NaN, as in
/// Env::Marks. An env without marks has n_marks 0 and empty spans.
struct VideoMoment {
  std::size_t n_marks = 0;      // M
  std::span<const float> path;  // [k, M, 2]: where the hands were, the latest last
  std::span<const float> plan;  // [m, M, 2]: where the actions until the next plan lead
  std::size_t n_executed = 0;   // number of those m actions already executed
  int step = 0;                 // env steps so far
  double score = 0.0;           // so far
  bool success = false;         // so far
};

/// One entry per hand; a third hand uses the colours of the first.
struct HandColours {
  Colour plan;      // the part still ahead
  Colour executed;  // the part already executed
  Colour path;
};
inline constexpr std::array<HandColours, 2> kHands = {
    {{{255, 122, 0}, {176, 104, 40}, {214, 30, 140}},
     {{0, 178, 255}, {40, 112, 150}, {50, 80, 255}}}};

/// Draws the moment over `frame`. Lines, dots and letters scale with the image.
void DrawOverlay(const VideoMoment& moment, RgbImage* frame);

}  // namespace dp_bench::media
