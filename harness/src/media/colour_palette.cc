#include "media/colour_palette.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "dp_bench/error.h"

namespace dp_bench::media {
namespace {

constexpr int kBits = 6;  // bits per channel that distinguish bins
constexpr int kLost = 8 - kBits;
constexpr std::size_t kBins = std::size_t{1} << (3 * kBits);

std::size_t BinOf(const std::uint8_t* rgb) {
  std::size_t bin = 0;
  for (int c = 0; c < 3; ++c) bin = bin << kBits | rgb[c] >> kLost;
  return bin;
}

// The colour in the middle of a bin.
std::array<int, 3> MiddleOf(std::size_t bin) {
  constexpr std::size_t kMask = (std::size_t{1} << kBits) - 1;
  const auto channel = [bin](int shift) {
    return static_cast<int>((bin >> shift & kMask) << kLost) + (1 << kLost) / 2;
  };
  return {channel(2 * kBits), channel(kBits), channel(0)};
}

// The pixels of a bin.
struct Point {
  std::array<double, 3> mean;
  double n;
};

// A subset of the points and its spread.
struct ColourBox {
  explicit ColourBox(std::span<Point> all) : points(all) {
    double n = 0.0;
    for (const Point& point : points) {
      n += point.n;
      for (std::size_t c = 0; c < 3; ++c) mean[c] += point.n * point.mean[c];
    }
    for (double& value : mean) value /= n;
    std::array<double, 3> scatter = {};
    for (const Point& point : points) {
      for (std::size_t c = 0; c < 3; ++c) {
        scatter[c] += point.n * std::pow(point.mean[c] - mean[c], 2);
      }
    }
    widest = static_cast<std::size_t>(std::ranges::max_element(scatter) - scatter.begin());
    if (points.size() > 1) error = scatter[widest];
  }

  std::span<Point> points;
  std::array<double, 3> mean = {};
  std::size_t widest = 0;  // the channel with the largest error
  double error = 0.0;  // squared distances from the mean in that channel, summed over all pixels
};

std::pair<ColourBox, ColourBox> Cut(const ColourBox& box) {
  const auto upper = std::partition(box.points.begin(), box.points.end(), [&](const Point& p) {
    return p.mean[box.widest] < box.mean[box.widest];
  });
  const auto n_lower = static_cast<std::size_t>(upper - box.points.begin());
  return {ColourBox(box.points.first(n_lower)), ColourBox(box.points.subspan(n_lower))};
}

Colour ColourOf(const ColourBox& box) {
  Colour colour;
  for (std::size_t c = 0; c < 3; ++c) {
    colour[c] = static_cast<std::uint8_t>(std::lround(box.mean[c]));
  }
  return colour;
}

}  // namespace

ColourPalette::ColourPalette(std::vector<Colour> colours)
    : colours_(std::move(colours)), nearest_(kBins) {
  DPB_ASSERT(!colours_.empty() && colours_.size() <= kMaxColours);
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const std::array<int, 3> middle = MiddleOf(bin);
    int least = std::numeric_limits<int>::max();
    for (std::size_t i = 0; i < colours_.size(); ++i) {
      int distance = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        distance += (middle[c] - colours_[i][c]) * (middle[c] - colours_[i][c]);
      }
      if (distance >= least) continue;
      least = distance;
      nearest_[bin] = static_cast<std::uint8_t>(i);
    }
  }
}

std::uint8_t ColourPalette::Nearest(const std::uint8_t* rgb) const { return nearest_[BinOf(rgb)]; }

ColourHistogram::ColourHistogram() : bins_(kBins) {}

void ColourHistogram::Add(const RgbImage& picture) {
  for (std::size_t i = 0; i < picture.pixels.size(); i += 3) {
    const std::uint8_t* rgb = &picture.pixels[i];
    Bin& bin = bins_[BinOf(rgb)];
    ++bin.n;
    bin.red += rgb[0];
    bin.green += rgb[1];
    bin.blue += rgb[2];
  }
}

ColourPalette ColourHistogram::ChoosePalette() const {
  std::vector<Point> points;
  for (const Bin& bin : bins_) {
    if (bin.n == 0) continue;
    const auto n = static_cast<double>(bin.n);
    points.push_back({.mean = {static_cast<double>(bin.red) / n, static_cast<double>(bin.green) / n,
                               static_cast<double>(bin.blue) / n},
                      .n = n});
  }
  DPB_ASSERT(!points.empty());
  std::vector<ColourBox> boxes = {ColourBox(points)};
  while (boxes.size() < ColourPalette::kMaxColours) {
    const auto widest = std::ranges::max_element(boxes, {}, &ColourBox::error);
    if (widest->error <= 0.0) break;
    auto [lower, upper] = Cut(*widest);
    *widest = lower;
    boxes.push_back(upper);
  }
  std::vector<Colour> colours;
  for (const ColourBox& box : boxes) colours.push_back(ColourOf(box));
  return ColourPalette(std::move(colours));
}

}  // namespace dp_bench::media
