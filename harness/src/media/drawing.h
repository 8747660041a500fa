// Lines, dots and captions over an image, through cairo. Shapes are clipped at the image's
// borders, and equal calls give equal pixels. Any thread may draw, but each image belongs to one
// thread. Throws Error{kMedia} if cairo fails.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "dp_bench/env.h"

namespace dp_bench::media {

using Colour = std::array<std::uint8_t, 3>;  // RGB

/// A position in an image [px], from its top left corner. The centre of the first pixel is (0.5,
/// 0.5).
struct ImagePoint {
  double x = 0.0;
  double y = 0.0;
};

/// Fills a rectangle [px].
void Fill(int left, int top, int width, int height, const Colour& colour, RgbImage* image);

/// Draws a frame along the borders, `thickness` [px] wide.
void DrawBorder(int thickness, const Colour& colour, RgbImage* image);

/// Joins the points in order, with smooth edges and round ends, `thickness` [px] wide. A point that
/// is not finite, or a million pixels away, interrupts the line. A point with no drawable neighbour
/// is left out. `opacity`: 0 to 1.
void DrawPolyline(std::span<const ImagePoint> points, double thickness, const Colour& colour,
                  double opacity, RgbImage* image);

/// A disc with a smooth edge; nothing when its centre is not finite.
void DrawDisc(ImagePoint centre, double radius, const Colour& colour, double opacity,
              RgbImage* image);

/// Writes white UTF-8 text on a bar that is `height` pixels high and as wide as the text. Its top
/// left corner is at (left, top). The font, DejaVu Sans, is compiled in. If the text is not valid
/// UTF-8, each byte outside ASCII becomes a '?'.
void DrawCaption(std::string_view text, int left, int top, int height, const Colour& bar,
                 RgbImage* image);

}  // namespace dp_bench::media
