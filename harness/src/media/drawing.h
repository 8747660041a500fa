// Lines, dots and captions over a picture. Everything is cut at its borders; equal calls give equal
// pixels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "dp_bench/env.h"

namespace dp_bench::media {

using Colour = std::array<std::uint8_t, 3>;  // RGB

/// A place in a picture [px], from its top left corner: the first pixel's centre is (0.5, 0.5).
struct PicturePoint {
  double x = 0.0;
  double y = 0.0;
};

/// Fills a rectangle [px].
void Fill(int left, int top, int width, int height, const Colour& colour, RgbImage* image);

/// Draws a frame along the borders, `thickness` [px] wide.
void DrawBorder(int thickness, const Colour& colour, RgbImage* image);

/// Joins the points in turn, with smooth edges and round ends, `thickness` [px] wide. A point that
/// is not finite interrupts the line; one between two such is left out. `opacity`: 0 to 1.
void DrawPolyline(std::span<const PicturePoint> points, double thickness, const Colour& colour,
                  double opacity, RgbImage* image);

/// A disc with a smooth edge; nothing when its centre is not finite.
void DrawDisc(PicturePoint centre, double radius, const Colour& colour, double opacity,
              RgbImage* image);

inline constexpr int kGlyphWidth = 3;  // of a 3 x 5 glyph, without the gap
inline constexpr int kGlyphHeight = 5;

/// The height of a caption [px].
constexpr int CaptionHeight(int scale) { return (kGlyphHeight + 2) * scale; }

/// Writes white text on a bar, whose top left corner is at (left, top). A pixel of a glyph is
/// `scale` pixels. It knows digits, '.', '-' and letters, which are drawn as capitals; all else is
/// a blank.
void DrawCaption(std::string_view text, int left, int top, int scale, const Colour& bar,
                 RgbImage* image);

}  // namespace dp_bench::media
