// A line's pixels take the share of them that it covers: the distance to it, over one pixel. The
// shares are collected first and blended once, or joints would be darker than the rest.
#include "media/drawing.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace dp_bench::media {
namespace {

using Glyph = std::array<std::uint8_t, kGlyphHeight>;  // rows of three bits, from the top

constexpr std::array<Glyph, 10> kDigits = {{{7, 5, 5, 5, 7},
                                            {2, 6, 2, 2, 7},
                                            {7, 1, 7, 4, 7},
                                            {7, 1, 7, 1, 7},
                                            {5, 5, 7, 1, 1},
                                            {7, 4, 7, 1, 7},
                                            {7, 4, 7, 5, 7},
                                            {7, 1, 1, 1, 1},
                                            {7, 5, 7, 5, 7},
                                            {7, 5, 7, 1, 7}}};
constexpr std::array<Glyph, 26> kLetters = {{{2, 5, 7, 5, 5},    // A
                                             {6, 5, 6, 5, 6},    // B
                                             {3, 4, 4, 4, 3},    // C
                                             {6, 5, 5, 5, 6},    // D
                                             {7, 4, 6, 4, 7},    // E
                                             {7, 4, 6, 4, 4},    // F
                                             {3, 4, 5, 5, 3},    // G
                                             {5, 5, 7, 5, 5},    // H
                                             {7, 2, 2, 2, 7},    // I
                                             {1, 1, 1, 5, 2},    // J
                                             {5, 5, 6, 5, 5},    // K
                                             {4, 4, 4, 4, 7},    // L
                                             {5, 7, 7, 5, 5},    // M
                                             {6, 5, 5, 5, 5},    // N
                                             {2, 5, 5, 5, 2},    // O
                                             {6, 5, 6, 4, 4},    // P
                                             {2, 5, 5, 6, 3},    // Q
                                             {6, 5, 6, 5, 5},    // R
                                             {3, 4, 2, 1, 6},    // S
                                             {7, 2, 2, 2, 2},    // T
                                             {5, 5, 5, 5, 7},    // U
                                             {5, 5, 5, 5, 2},    // V
                                             {5, 5, 7, 7, 5},    // W
                                             {5, 5, 2, 5, 5},    // X
                                             {5, 5, 2, 2, 2},    // Y
                                             {7, 1, 2, 4, 7}}};  // Z
constexpr Colour kTextColour = {255, 255, 255};

Glyph GlyphOf(char c) {
  if (c >= '0' && c <= '9') return kDigits[static_cast<std::size_t>(c - '0')];
  if (c >= 'A' && c <= 'Z') return kLetters[static_cast<std::size_t>(c - 'A')];
  if (c >= 'a' && c <= 'z') return kLetters[static_cast<std::size_t>(c - 'a')];
  if (c == '.') return {0, 0, 0, 0, 2};
  if (c == '-') return {0, 0, 7, 0, 0};
  return {};
}

std::uint8_t* PixelAt(int x, int y, RgbImage* image) {
  return image->pixels.data() + 3 * (static_cast<std::ptrdiff_t>(y) * image->width + x);
}

bool IsFinite(const PicturePoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); }

double SquaredDistanceToSegment(const PicturePoint& p, const PicturePoint& a,
                                const PicturePoint& b) {
  const double abx = b.x - a.x;
  const double aby = b.y - a.y;
  const double length2 = abx * abx + aby * aby;
  const double along = (p.x - a.x) * abx + (p.y - a.y) * aby;
  const double t = length2 > 0.0 ? std::clamp(along / length2, 0.0, 1.0) : 0.0;
  const double dx = p.x - a.x - t * abx;
  const double dy = p.y - a.y - t * aby;
  return dx * dx + dy * dy;
}

// Pixels of a picture; `right` and `bottom` are the first outside.
struct Box {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
};

// What lies within `reach` of the points, cut to the picture.
Box BoxAround(std::span<const PicturePoint> points, double reach, const RgbImage& image) {
  PicturePoint low = {std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  PicturePoint high = {std::numeric_limits<double>::lowest(),
                       std::numeric_limits<double>::lowest()};
  for (const PicturePoint& p : points) {
    if (!IsFinite(p)) continue;
    low = {std::min(low.x, p.x), std::min(low.y, p.y)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y)};
  }
  const auto cut = [](double x, int limit) {
    return static_cast<int>(std::clamp(x, 0.0, static_cast<double>(limit)));
  };
  return {.left = cut(std::floor(low.x - reach), image.width),
          .top = cut(std::floor(low.y - reach), image.height),
          .right = cut(std::ceil(high.x + reach), image.width),
          .bottom = cut(std::ceil(high.y + reach), image.height)};
}

// How much of each pixel of a box is to take on a colour.
class Cover {
 public:
  explicit Cover(const Box& box)
      : box_(box),
        width_(static_cast<std::size_t>(std::max(0, box.right - box.left))),
        shares_(width_ * static_cast<std::size_t>(std::max(0, box.bottom - box.top))) {}

  void AddSegment(const PicturePoint& a, const PicturePoint& b, double radius,
                  const RgbImage& image) {
    const double reach = radius + 0.5;
    const Box near = BoxAround(std::array{a, b}, reach, image);
    for (int y = near.top; y < near.bottom; ++y) {
      for (int x = near.left; x < near.right; ++x) {
        const double distance2 = SquaredDistanceToSegment({x + 0.5, y + 0.5}, a, b);
        if (distance2 >= reach * reach) continue;
        float& share = At(x, y);
        share = std::max(share, static_cast<float>(std::min(1.0, reach - std::sqrt(distance2))));
      }
    }
  }

  void Blend(const Colour& colour, double opacity, RgbImage* image) {
    for (int y = box_.top; y < box_.bottom; ++y) {
      for (int x = box_.left; x < box_.right; ++x) {
        const double share = opacity * static_cast<double>(At(x, y));
        if (share <= 0.0) continue;
        std::uint8_t* const pixel = PixelAt(x, y, image);
        for (std::size_t c = 0; c < colour.size(); ++c) {
          pixel[c] = static_cast<std::uint8_t>(pixel[c] + (colour[c] - pixel[c]) * share + 0.5);
        }
      }
    }
  }

 private:
  float& At(int x, int y) {
    return shares_[static_cast<std::size_t>(y - box_.top) * width_ +
                   static_cast<std::size_t>(x - box_.left)];
  }

  Box box_;
  std::size_t width_;
  std::vector<float> shares_;
};

}  // namespace

void Fill(int left, int top, int width, int height, const Colour& colour, RgbImage* image) {
  for (int y = std::max(0, top); y < std::min(image->height, top + height); ++y) {
    for (int x = std::max(0, left); x < std::min(image->width, left + width); ++x) {
      std::ranges::copy(colour, PixelAt(x, y, image));
    }
  }
}

void DrawBorder(int thickness, const Colour& colour, RgbImage* image) {
  Fill(0, 0, image->width, thickness, colour, image);
  Fill(0, image->height - thickness, image->width, thickness, colour, image);
  Fill(0, 0, thickness, image->height, colour, image);
  Fill(image->width - thickness, 0, thickness, image->height, colour, image);
}

void DrawPolyline(std::span<const PicturePoint> points, double thickness, const Colour& colour,
                  double opacity, RgbImage* image) {
  const double radius = thickness / 2.0;
  Cover cover(BoxAround(points, radius + 0.5, *image));
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (!IsFinite(points[i - 1]) || !IsFinite(points[i])) continue;
    cover.AddSegment(points[i - 1], points[i], radius, *image);
  }
  cover.Blend(colour, opacity, image);
}

void DrawDisc(PicturePoint centre, double radius, const Colour& colour, double opacity,
              RgbImage* image) {
  // a line from a point to itself
  DrawPolyline(std::array{centre, centre}, 2.0 * radius, colour, opacity, image);
}

void DrawCaption(std::string_view text, int left, int top, int scale, const Colour& bar,
                 RgbImage* image) {
  const int advance = (kGlyphWidth + 1) * scale;
  Fill(left, top, static_cast<int>(text.size()) * advance + scale, CaptionHeight(scale), bar,
       image);
  int x = left + scale;
  for (const char c : text) {
    const Glyph glyph = GlyphOf(c);
    for (int row = 0; row < kGlyphHeight; ++row) {
      for (int column = 0; column < kGlyphWidth; ++column) {
        if ((glyph[static_cast<std::size_t>(row)] >> (kGlyphWidth - 1 - column) & 1) == 0) continue;
        Fill(x + column * scale, top + (row + 1) * scale, scale, scale, kTextColour, image);
      }
    }
    x += advance;
  }
}

}  // namespace dp_bench::media
