// Wu's line on sampled texels, and the resize of the output pixels that read them.
#include "pusht_raster_marks.h"

#include <cmath>
#include <cstdlib>
#include <utility>

namespace dp_bench::pusht {

void SmoothMarks::DrawLine(Pixel a, Pixel b, Rgb colour) {
  const bool steep = std::abs(b.x - a.x) < std::abs(b.y - a.y);
  if (steep) {
    std::swap(a.x, a.y);
    std::swap(b.x, b.y);
  }
  if (a.x > b.x) std::swap(a, b);
  const auto place = [steep](int major, int minor) {
    return steep ? Pixel{minor, major} : Pixel{major, minor};
  };

  const int length = b.x - a.x;
  const float gradient =
      length == 0 ? 0.0F : static_cast<float>(b.y - a.y) / static_cast<float>(length);
  float minor = static_cast<float>(a.y);
  for (int x = a.x; x <= b.x; ++x, minor += gradient) {
    // the sum's rounding error must not split the last pixel, which is a full one
    if (x == b.x) minor = static_cast<float>(b.y);
    const float whole = std::floor(minor);
    const float fraction = minor - whole;
    Blend(place(x, static_cast<int>(whole)), colour, 1.0F - fraction);
    Blend(place(x, static_cast<int>(whole) + 1), colour, fraction);
  }
}

void SmoothMarks::Blend(Pixel pixel, Rgb colour, float weight) {
  const int row = canvas_.SampleAt(pixel.y);
  const int column = canvas_.SampleAt(pixel.x);
  if (weight <= 0.0F || row < 0 || column < 0 || count_ == texels_.size()) return;
  const Rgb below = ColourAt(row, column);
  const auto mix = [weight](std::uint8_t top, std::uint8_t bottom) {
    return static_cast<std::uint8_t>(weight * static_cast<float>(top) +
                                     (1.0F - weight) * static_cast<float>(bottom));
  };
  texels_[count_++] = {
      row, column, {mix(colour.r, below.r), mix(colour.g, below.g), mix(colour.b, below.b)}};
}

Rgb SmoothMarks::ColourAt(int row, int column) const {
  for (std::size_t i = count_; i-- > 0;) {
    if (texels_[i].row == row && texels_[i].column == column) return texels_[i].colour;
  }
  return resize_.colour(canvas_.Row(row)[column]);
}

void SmoothMarks::Resolve(std::span<std::uint8_t> image) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const int x = texels_[i].column / 2;
    const int y = texels_[i].row / 2;
    const Rgb blended = BilinearBlend(x, y, {ColourAt(2 * y, 2 * x), ColourAt(2 * y, 2 * x + 1)},
                                      {ColourAt(2 * y + 1, 2 * x), ColourAt(2 * y + 1, 2 * x + 1)});
    std::uint8_t* out = &image[static_cast<std::size_t>((y * kImageSize + x) * 3)];
    out[0] = blended.r;
    out[1] = blended.g;
    out[2] = blended.b;
  }
}

}  // namespace dp_bench::pusht
