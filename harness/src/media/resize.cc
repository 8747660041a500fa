// The arithmetic is that of PIL's bilinear filter for 8 bits (Pillow, src/libImaging/Resample.c):
// weights and sums are integers, so the bits are equal everywhere. libswscale's bilinear differs
// from it by up to 46 of 255 where an image shrinks.
#include "media/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::media {
namespace {

constexpr int kChannels = 3;
constexpr int kWeightBits = 22;

// What one pixel of a line is made of: the pixels from `first` on, with these weights.
struct Tap {
  int first = 0;
  std::vector<int> weights;
};

std::vector<Tap> TapsFor(int n_from, int n_to) {
  const double scale = static_cast<double>(n_from) / n_to;
  const double support = std::max(scale, 1.0);
  std::vector<Tap> taps(static_cast<std::size_t>(n_to));
  for (int i = 0; i < n_to; ++i) {
    const double center = (i + 0.5) * scale;
    Tap& tap = taps[static_cast<std::size_t>(i)];
    tap.first = std::max(0, static_cast<int>(center - support + 0.5));
    const int end = std::min(n_from, static_cast<int>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0.0;
    for (int from = tap.first; from < end; ++from) {
      weights.push_back(std::max(0.0, 1.0 - std::abs((from - center + 0.5) / support)));
      sum += weights.back();
    }
    for (const double weight : weights) {
      tap.weights.push_back(static_cast<int>(0.5 + weight / sum * (1 << kWeightBits)));
    }
  }
  return taps;
}

// One line of pixels to another; `stride` [bytes] is from one pixel to the next.
struct Line {
  const std::byte* from;
  std::int64_t from_stride;
  std::byte* to;
  std::int64_t to_stride;
};

void Resample(const std::vector<Tap>& taps, const Line& line) {
  std::byte* to = line.to;
  for (const Tap& tap : taps) {
    int sum = 1 << (kWeightBits - 1);
    const std::byte* from = line.from + tap.first * line.from_stride;
    for (const int weight : tap.weights) {
      sum += weight * std::to_integer<int>(*from);
      from += line.from_stride;
    }
    *to = static_cast<std::byte>(std::clamp(sum >> kWeightBits, 0, 255));
    to += line.to_stride;
  }
}

}  // namespace

void ResizeWithPad(const PixelView& from, std::span<std::byte> to, int height, int width) {
  DPB_ASSERT(to.size() ==
             static_cast<std::size_t>(height) * static_cast<std::size_t>(width) * kChannels);
  const double ratio =
      std::max(static_cast<double>(from.width) / width, static_cast<double>(from.height) / height);
  const int n_rows = std::clamp(static_cast<int>(from.height / ratio), 1, height);
  const int n_columns = std::clamp(static_cast<int>(from.width / ratio), 1, width);

  const std::int64_t narrow_row = std::int64_t{kChannels} * n_columns;
  std::vector<std::byte> narrow(static_cast<std::size_t>(from.height * narrow_row));
  const std::vector<Tap> columns = TapsFor(from.width, n_columns);
  const std::vector<Tap> rows = TapsFor(from.height, n_rows);
  std::ranges::fill(to, std::byte{0});
  const std::int64_t row_bytes = std::int64_t{kChannels} * width;
  std::byte* const corner = to.data() + (height - n_rows) / 2 * row_bytes +
                            std::int64_t{kChannels} * ((width - n_columns) / 2);
  for (int channel = 0; channel < kChannels; ++channel) {
    for (int row = 0; row < from.height; ++row) {
      Resample(columns, {.from = from.data + row * from.strides[0] + channel * from.strides[2],
                         .from_stride = from.strides[1],
                         .to = narrow.data() + row * narrow_row + channel,
                         .to_stride = kChannels});
    }
    for (int column = 0; column < n_columns; ++column) {
      Resample(rows, {.from = narrow.data() + kChannels * column + channel,
                      .from_stride = narrow_row,
                      .to = corner + kChannels * column + channel,
                      .to_stride = row_bytes});
    }
  }
}

}  // namespace dp_bench::media
