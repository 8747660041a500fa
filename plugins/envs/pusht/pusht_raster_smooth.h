// Anti-aliased shapes in an image of any size: a shape is a signed distance in world pixels, and
// its edge is one image pixel wide. Deterministic: of the C library it uses only square roots.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "dp_bench/env.h"
#include "pusht_raster.h"
#include "pusht_world.h"

namespace dp_bench::pusht {

/// The largest centred square of an image, onto which the world is mapped.
struct PicturePlace {
  PicturePlace(int width, int height)
      : scale(std::min(width, height) / kWorldSize),
        left((width - scale * kWorldSize) / 2.0),
        top((height - scale * kWorldSize) / 2.0) {}

  double scale;  // image pixels per world pixel
  double left;   // left edge of the world in the image
  double top;
};

/// Blends shapes into the world's area of an image. `distance` maps a Point of the world to its
/// signed distance [world px], negative inside. It is called within `bounds` plus a margin for the
/// soft edge.
class SmoothPainter {
 public:
  /// `frame` must outlive the painter.
  explicit SmoothPainter(RgbImage* frame) : frame_(frame), place_(frame->width, frame->height) {}

  /// World pixels per image pixel.
  double pixel_size() const { return 1.0 / place_.scale; }

  void Fill(Rgb colour) {
    for (std::size_t i = 0; i + 2 < frame_->pixels.size(); i += 3) {
      frame_->pixels[i] = colour.r;
      frame_->pixels[i + 1] = colour.g;
      frame_->pixels[i + 2] = colour.b;
    }
  }

  /// `blur`: width of the edge [world px], if it is more than an image pixel.
  template <class Distance>
  void Paint(const Box& bounds, Rgb colour, double opacity, double blur, const Distance& distance) {
    const double width = std::max(blur, pixel_size());
    ForEachPixel(bounds, width, [&](std::uint8_t* pixel, Point p) {
      Blend(pixel, colour, Cover(distance(p), width) * opacity);
    });
  }

  /// A shape with a rim of `rim_width` [world px] inside its edge.
  template <class Distance>
  void PaintRimmed(const Box& bounds, Rgb colour, Rgb rim, double rim_width,
                   const Distance& distance) {
    const double width = pixel_size();
    ForEachPixel(bounds, width, [&](std::uint8_t* pixel, Point p) {
      const double d = distance(p);
      Blend(pixel, rim, Cover(d, width));
      Blend(pixel, colour, Cover(d + rim_width, width));
    });
  }

 private:
  static double Cover(double distance, double width) {
    return std::clamp(0.5 - distance / width, 0.0, 1.0);
  }

  static void Blend(std::uint8_t* pixel, Rgb colour, double cover) {
    if (cover <= 0.0) return;
    const std::array<std::uint8_t, 3> rgb = {colour.r, colour.g, colour.b};
    for (std::size_t c = 0; c < rgb.size(); ++c) {
      pixel[c] = static_cast<std::uint8_t>(pixel[c] + (rgb[c] - pixel[c]) * cover + 0.5);
    }
  }

  // The pixel of a world coordinate, at most `limit`; NaN counts as 0.
  int PixelAt(double world, double offset, int limit) const {
    return static_cast<int>(std::fmin(std::fmax(world * place_.scale + offset, 0.0), limit));
  }

  template <class Visit>
  void ForEachPixel(const Box& bounds, double margin, const Visit& visit) {
    const int x_low = PixelAt(bounds.low.x - margin, place_.left, frame_->width);
    const int x_high = PixelAt(bounds.high.x + margin, place_.left, frame_->width - 1);
    const int y_low = PixelAt(bounds.low.y - margin, place_.top, frame_->height);
    const int y_high = PixelAt(bounds.high.y + margin, place_.top, frame_->height - 1);
    for (int y = y_low; y <= y_high; ++y) {
      const auto row = static_cast<std::size_t>(y) * static_cast<std::size_t>(frame_->width);
      for (int x = x_low; x <= x_high; ++x) {
        visit(&frame_->pixels[3 * (row + static_cast<std::size_t>(x))],
              Point{(x + 0.5 - place_.left) / place_.scale, (y + 0.5 - place_.top) / place_.scale});
      }
    }
  }

  RgbImage* frame_;
  PicturePlace place_;
};

}  // namespace dp_bench::pusht
