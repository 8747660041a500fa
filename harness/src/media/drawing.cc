// Cairo cannot draw into images of three bytes per pixel. So it draws a mask of how much of each
// pixel a shape covers, and the colour is blended in by that share.
#include "media/drawing.h"

#include <cairo.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <numbers>
#include <string>

#include "core/errors.h"
#include "media/caption_font.h"

namespace dp_bench::media {
namespace {

constexpr Colour kTextColour = {255, 255, 255};
constexpr double kFarthest = 1e6;  // [px]; cairo's coordinates end at eight million

// In units of the caption's height: the tallest and the lowest letters fit.
constexpr double kFontSize = 0.8;
constexpr double kBaseline = 0.76;
constexpr double kMargin = 0.25;  // left and right of the text

void CairoCheck(cairo_status_t status) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw MediaError("cairo: {}", cairo_status_to_string(status));
}

struct CairoDeleter {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
  void operator()(cairo_scaled_font_t* font) const { cairo_scaled_font_destroy(font); }
  void operator()(cairo_font_options_t* options) const { cairo_font_options_destroy(options); }
  void operator()(cairo_glyph_t* glyphs) const { cairo_glyph_free(glyphs); }
};

template <class T>
using CairoPtr = std::unique_ptr<T, CairoDeleter>;

std::uint8_t* PixelAt(int x, int y, RgbImage* image) {
  return image->pixels.data() + 3 * (static_cast<std::ptrdiff_t>(y) * image->width + x);
}

bool IsDrawn(const ImagePoint& p) {
  return std::abs(p.x) < kFarthest && std::abs(p.y) < kFarthest;  // false for NaN
}

// Pixels of an image; `right` and `bottom` are the first outside.
struct Box {
  int left = 0;
  int top = 0;
  int right = 0;
  int bottom = 0;
};

// The area within `reach` of the points, cut to the image.
Box BoxAround(std::span<const ImagePoint> points, double reach, const RgbImage& image) {
  ImagePoint low = {std::numeric_limits<double>::max(), std::numeric_limits<double>::max()};
  ImagePoint high = {std::numeric_limits<double>::lowest(), std::numeric_limits<double>::lowest()};
  for (const ImagePoint& p : points) {
    if (!IsDrawn(p)) continue;
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

bool IsEmpty(const Box& box) { return box.right <= box.left || box.bottom <= box.top; }

// A mask: how much of each pixel of a box takes on the colour. The box is not empty.
class Mask {
 public:
  explicit Mask(const Box& box)
      : box_(box),
        surface_(cairo_image_surface_create(CAIRO_FORMAT_A8, box.right - box.left,
                                            box.bottom - box.top)),
        cairo_(cairo_create(surface_.get())) {
    cairo_translate(cairo_.get(), -box.left, -box.top);
  }

  /// The context that draws into the mask, in the image's coordinates.
  cairo_t* cairo() const { return cairo_.get(); }

  void Blend(const Colour& colour, double opacity, RgbImage* image) const {
    CairoCheck(cairo_status(cairo_.get()));
    cairo_surface_flush(surface_.get());
    const std::uint8_t* row = cairo_image_surface_get_data(surface_.get());
    const int stride = cairo_image_surface_get_stride(surface_.get());
    for (int y = box_.top; y < box_.bottom; ++y, row += stride) {
      for (int x = box_.left; x < box_.right; ++x) {
        const std::uint8_t covered = row[x - box_.left];
        if (covered == 0) continue;
        const double share = opacity * covered / 255.0;
        std::uint8_t* const pixel = PixelAt(x, y, image);
        for (std::size_t c = 0; c < colour.size(); ++c) {
          pixel[c] = static_cast<std::uint8_t>(pixel[c] + (colour[c] - pixel[c]) * share + 0.5);
        }
      }
    }
  }

 private:
  Box box_;
  CairoPtr<cairo_surface_t> surface_;
  CairoPtr<cairo_t> cairo_;
};

// The caption font at a size [px]. Cairo caches recent sizes and locks them while it uses them.
CairoPtr<cairo_scaled_font_t> FontOfSize(double size) {
  const CairoPtr<cairo_font_options_t> options(cairo_font_options_create());
  cairo_font_options_set_antialias(options.get(), CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options.get(), CAIRO_HINT_STYLE_SLIGHT);
  cairo_font_options_set_hint_metrics(options.get(), CAIRO_HINT_METRICS_ON);
  cairo_matrix_t scale;
  cairo_matrix_init_scale(&scale, size, size);
  cairo_matrix_t identity;
  cairo_matrix_init_identity(&identity);
  CairoPtr<cairo_scaled_font_t> font(
      cairo_scaled_font_create(CaptionFont(), &scale, &identity, options.get()));
  CairoCheck(cairo_scaled_font_status(font.get()));
  return font;
}

struct Glyphs {
  CairoPtr<cairo_glyph_t> first;
  int n = 0;
};

Glyphs GlyphsOf(std::string text, double x, double y, cairo_scaled_font_t* font) {
  const auto find = [&](Glyphs* glyphs) {
    cairo_glyph_t* first = nullptr;
    const cairo_status_t status =
        cairo_scaled_font_text_to_glyphs(font, x, y, text.data(), static_cast<int>(text.size()),
                                         &first, &glyphs->n, nullptr, nullptr, nullptr);
    glyphs->first.reset(first);
    return status;
  };
  Glyphs glyphs;
  cairo_status_t status = find(&glyphs);
  if (status == CAIRO_STATUS_INVALID_STRING) {
    std::ranges::replace_if(
        text, [](char c) { return static_cast<unsigned char>(c) > 127; }, '?');
    status = find(&glyphs);
  }
  CairoCheck(status);
  return glyphs;
}

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

void DrawPolyline(std::span<const ImagePoint> points, double thickness, const Colour& colour,
                  double opacity, RgbImage* image) {
  const Box box = BoxAround(points, thickness / 2.0 + 1.0, *image);
  if (IsEmpty(box)) return;
  const Mask mask(box);
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (!IsDrawn(points[i - 1]) || !IsDrawn(points[i])) continue;
    const bool begins = i == 1 || !IsDrawn(points[i - 2]);
    if (begins) cairo_move_to(mask.cairo(), points[i - 1].x, points[i - 1].y);
    cairo_line_to(mask.cairo(), points[i].x, points[i].y);
  }
  cairo_set_line_width(mask.cairo(), thickness);
  cairo_set_line_cap(mask.cairo(), CAIRO_LINE_CAP_ROUND);
  cairo_set_line_join(mask.cairo(), CAIRO_LINE_JOIN_ROUND);
  cairo_stroke(mask.cairo());
  mask.Blend(colour, opacity, image);
}

void DrawDisc(ImagePoint centre, double radius, const Colour& colour, double opacity,
              RgbImage* image) {
  const Box box = BoxAround(std::array{centre}, radius + 1.0, *image);
  if (IsEmpty(box)) return;
  const Mask mask(box);
  cairo_arc(mask.cairo(), centre.x, centre.y, radius, 0.0, 2.0 * std::numbers::pi);
  cairo_fill(mask.cairo());
  mask.Blend(colour, opacity, image);
}

void DrawCaption(std::string_view text, int left, int top, int height, const Colour& bar,
                 RgbImage* image) {
  // whole pixels, or the letters would be blurred
  const double margin = std::round(kMargin * height);
  const double baseline = std::round(kBaseline * height);
  const auto font = FontOfSize(std::floor(kFontSize * height));
  const Glyphs glyphs = GlyphsOf(std::string(text), left + margin, top + baseline, font.get());
  cairo_text_extents_t extents;
  cairo_scaled_font_glyph_extents(font.get(), glyphs.first.get(), glyphs.n, &extents);
  const int width = static_cast<int>(std::ceil(extents.x_advance + 2.0 * margin));
  Fill(left, top, width, height, bar, image);

  const Box box = {.left = std::max(0, left),
                   .top = std::max(0, top),
                   .right = std::min(image->width, left + width),
                   .bottom = std::min(image->height, top + height)};
  if (IsEmpty(box)) return;
  const Mask mask(box);
  cairo_set_scaled_font(mask.cairo(), font.get());
  cairo_show_glyphs(mask.cairo(), glyphs.first.get(), glyphs.n);
  mask.Blend(kTextColour, 1.0, image);
}

}  // namespace dp_bench::media
