// Scan conversion on sampled rows and columns, and OpenCV's fixed-point bilinear resize.
#include "pusht_raster.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace dp_bench::pusht {
namespace {

// Output pixel i samples source position (i + 1/2) * 16/3 - 1/2 = (32 i + 13) / 6.
constexpr int SourcePixel(int output) { return (32 * output + 13) / 6; }

// Weights of the two neighbours in units of 1/2048: the fraction of (32 i + 13) / 6 is 1/6, 1/2,
// 5/6.
constexpr std::array<std::array<std::int32_t, 2>, 3> kWeights = {
    {{1707, 341}, {1024, 1024}, {341, 1707}}};

// Two neighbours in a row, as input of the vertical pass.
std::int32_t BlendRow(std::size_t phase, int left, int right) {
  return (left * kWeights[phase][0] + right * kWeights[phase][1]) >> 4;
}

// OpenCV drops the low 16 bits of each product before the rounded sum.
std::uint8_t BlendColumn(std::size_t phase, std::int32_t upper, std::int32_t lower) {
  const std::int32_t sum =
      ((kWeights[phase][0] * upper) >> 16) + ((kWeights[phase][1] * lower) >> 16);
  return static_cast<std::uint8_t>((sum + 2) >> 2);
}

}  // namespace

SampledCanvas::SampledCanvas() {
  for (int i = 0; i < kImageSize; ++i) {
    position_[static_cast<std::size_t>(2 * i)] = SourcePixel(i);
    position_[static_cast<std::size_t>(2 * i + 1)] = SourcePixel(i) + 1;
  }
  for (std::size_t pixel = 0; pixel < next_.size(); ++pixel) {
    const auto it = std::lower_bound(position_.begin(), position_.end(), static_cast<int>(pixel));
    next_[pixel] = static_cast<std::uint8_t>(it - position_.begin());
  }
  texels_.fill(0);
}

void SampledCanvas::Restore(const SampledCanvas& other, const Region& region) {
  const auto width = static_cast<std::size_t>(2 * (region.high.x - region.low.x));
  for (int row = 2 * region.low.y; row < 2 * region.high.y; ++row) {
    const auto offset = static_cast<std::size_t>(row * kSamples + 2 * region.low.x);
    std::memcpy(&texels_[offset], &other.texels_[offset], width);
  }
}

int SampledCanvas::SampleFrom(int pixel) const {
  return next_[static_cast<std::size_t>(std::clamp(pixel, 0, kCanvasSize))];
}

void SampledCanvas::FillSpan(int row, int x_first, int x_last, std::uint8_t colour) {
  const int first = SampleFrom(x_first);
  const int end = SampleFrom(x_last + 1);
  std::uint8_t* texel = &texels_[static_cast<std::size_t>(row) * kSamples];
  for (int column = first; column < end; ++column) texel[column] = colour;
}

void SampledCanvas::FillConvex(std::span<const Pixel> corners, std::uint8_t colour) {
  int top = corners[0].y;
  int bottom = corners[0].y;
  for (const Pixel& corner : corners) {
    top = std::min(top, corner.y);
    bottom = std::max(bottom, corner.y);
  }
  const int first_row = SampleFrom(top);
  const int end_row = SampleFrom(bottom + 1);
  std::array<int, kSamples> left;
  std::array<int, kSamples> right;
  std::fill(left.begin() + first_row, left.begin() + end_row, kCanvasSize);
  std::fill(right.begin() + first_row, right.begin() + end_row, -1);

  // where the scan lines cross the edges
  Pixel previous = corners.back();
  for (const Pixel& corner : corners) {
    Pixel upper = previous;
    Pixel lower = corner;
    previous = corner;
    if (upper.y > lower.y) std::swap(upper, lower);
    // an edge includes its upper end, and its lower end only on the polygon's last line; a polygon
    // of one line has only that line
    const int end = SampleFrom(lower.y == bottom ? bottom + 1 : lower.y);
    const int height = std::max(lower.y - upper.y, 1);
    for (int row = SampleFrom(upper.y); row < end; ++row) {
      const auto r = static_cast<std::size_t>(row);
      // the division rounds towards the upper end, in either direction
      const int x = upper.x + (position_[r] - upper.y) * (lower.x - upper.x) / height;
      left[r] = std::min(left[r], x);
      right[r] = std::max(right[r], x);
    }
  }

  for (int row = first_row; row < end_row; ++row) {
    const auto r = static_cast<std::size_t>(row);
    FillSpan(row, left[r], right[r], colour);
  }
}

void SampledCanvas::DrawWideLine(Pixel a, Pixel b, std::uint8_t colour) {
  const int width = std::abs(b.x - a.x);
  const int height = std::abs(b.y - a.y);
  const int step_x = a.x < b.x ? 1 : -1;
  const int step_y = a.y < b.y ? 1 : -1;

  // Bresenham's line, with its error term solved for the number of minor steps after `steps` major
  // ones
  const auto minor_steps = [](int steps, int minor, int major) {
    return major == 0 ? 0 : (steps * minor + major - 1 - major / 2) / major;
  };
  if (width <= height) {
    const int end = SampleFrom(std::max(a.y, b.y) + 1);
    for (int row = SampleFrom(std::min(a.y, b.y)); row < end; ++row) {
      const int steps = std::abs(position_[static_cast<std::size_t>(row)] - a.y);
      const int x = a.x + step_x * minor_steps(steps, width, height);
      FillSpan(row, x - 1, x + 2, colour);
    }
    return;
  }
  const int end = SampleFrom(std::max(a.x, b.x) + 1);
  for (int column = SampleFrom(std::min(a.x, b.x)); column < end; ++column) {
    const int steps = std::abs(position_[static_cast<std::size_t>(column)] - a.x);
    const int y = a.y + step_y * minor_steps(steps, height, width);
    const int last = SampleFrom(y + 3);
    for (int row = SampleFrom(y - 1); row < last; ++row) {
      texels_[static_cast<std::size_t>(row * kSamples + column)] = colour;
    }
  }
}

void SampledCanvas::DrawDisc(Pixel centre, std::span<const int> half_widths, std::uint8_t colour) {
  const int radius = static_cast<int>(half_widths.size());
  const int end = SampleFrom(centre.y + radius);
  for (int row = SampleFrom(centre.y - radius); row < end; ++row) {
    const int dy = position_[static_cast<std::size_t>(row)] - centre.y;
    const int half_width = half_widths[static_cast<std::size_t>(dy >= 0 ? dy : -dy - 1)];
    FillSpan(row, centre.x - half_width, centre.x + half_width - 1, colour);
  }
}

Region SampledCanvas::OutputRegion(Pixel low, Pixel high) const {
  return {{SampleFrom(low.x) / 2, SampleFrom(low.y) / 2},
          {(SampleFrom(high.x + 1) + 1) / 2, (SampleFrom(high.y + 1) + 1) / 2}};
}

Rgb BilinearBlend(int x, int y, std::array<Rgb, 2> upper, std::array<Rgb, 2> lower) {
  const auto column = static_cast<std::size_t>(x) % kWeights.size();
  const auto row = static_cast<std::size_t>(y) % kWeights.size();
  Rgb blended;
  for (std::size_t c = 0; c < blended.size(); ++c) {
    blended[c] = BlendColumn(row, BlendRow(column, upper[0][c], upper[1][c]),
                             BlendRow(column, lower[0][c], lower[1][c]));
  }
  return blended;
}

BilinearResize::BilinearResize(std::span<const Rgb> palette) {
  std::copy(palette.begin(), palette.end(), palette_.begin());
  for (std::size_t phase = 0; phase < kPhases; ++phase) {
    for (std::size_t pair = 0; pair < kPairs; ++pair) {
      const Rgb& left = palette_[pair / SampledCanvas::kMaxColours];
      const Rgb& right = palette_[pair % SampledCanvas::kMaxColours];
      for (std::size_t c = 0; c < left.size(); ++c) {
        blends_[phase][pair][c] = BlendRow(phase, left[c], right[c]);
      }
    }
  }
}

void BilinearResize::Run(const SampledCanvas& canvas, const Region& region,
                         std::span<std::uint8_t> image) const {
  const auto pair = [](const std::uint8_t* texels) {
    return static_cast<std::size_t>(texels[0] * SampledCanvas::kMaxColours + texels[1]);
  };
  for (int y = region.low.y; y < region.high.y; ++y) {
    const auto row_phase = static_cast<std::size_t>(y % kPhases);
    const std::uint8_t* upper = canvas.Row(2 * y) + 2 * region.low.x;
    const std::uint8_t* lower = canvas.Row(2 * y + 1) + 2 * region.low.x;
    std::uint8_t* out = &image[static_cast<std::size_t>((y * kImageSize + region.low.x) * 3)];
    auto phase = static_cast<std::size_t>(region.low.x % kPhases);
    for (int x = region.low.x; x < region.high.x; ++x, upper += 2, lower += 2, out += 3) {
      const std::size_t upper_pair = pair(upper);
      const std::size_t lower_pair = pair(lower);
      if (upper_pair == lower_pair && upper[0] == upper[1]) {
        // four equal texels keep their colour
        std::ranges::copy(palette_[upper[0]], out);
      } else {
        const Blend& top = blends_[phase][upper_pair];
        const Blend& bottom = blends_[phase][lower_pair];
        for (std::size_t c = 0; c < 3; ++c) {
          out[c] = BlendColumn(row_phase, top[c], bottom[c]);
        }
      }
      phase = phase + 1 == kPhases ? 0 : phase + 1;
    }
  }
}

}  // namespace dp_bench::pusht
