// The part of a 512x512 drawing that a bilinear resize to 96x96 reads, and that resize. Shapes
// cover the same whole pixels as in the demonstrations' drawing library (pygame 2.1); this was
// found by experiment on the recorded images. The resize has the same bits as OpenCV's
// INTER_LINEAR.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace dp_bench::pusht {

inline constexpr int kCanvasSize = 512;
inline constexpr int kImageSize = 96;

/// A pixel of the 512x512 drawing.
struct Pixel {
  int x = 0;
  int y = 0;
};

using Rgb = std::array<std::uint8_t, 3>;

/// A block of pixels, [low, high) on both axes.
struct Region {
  Pixel low;
  Pixel high;
};

/// The drawing, stored as one palette index per texel that the resize reads: on each axis, two
/// neighbours for each of the 96 output pixels. Shapes are clipped to it; their coordinates must be
/// within +-16384.
class SampledCanvas {
 public:
  static constexpr int kSamples = 2 * kImageSize;
  static constexpr int kMaxColours = 8;

  /// All texels have colour 0.
  SampledCanvas();

  /// Copies the texels behind the output pixels of `region` from `other`.
  void Restore(const SampledCanvas& other, const Region& region);

  /// Fills a convex polygon; it may be degenerate.
  void FillConvex(std::span<const Pixel> corners, std::uint8_t colour);

  /// A line that is 4 pixels wide, measured along x for steep lines and along y for flat ones.
  void DrawWideLine(Pixel a, Pixel b, std::uint8_t colour);

  /// A disc given by the half width of each row from its centre downwards; the upper half mirrors
  /// it.
  void DrawDisc(Pixel centre, std::span<const int> half_widths, std::uint8_t colour);

  /// The output pixels that drawing between `low` and `high` (inclusive) can change.
  Region OutputRegion(Pixel low, Pixel high) const;

  /// The sample at a pixel of either axis; -1 if there is none.
  int SampleAt(int pixel) const {
    const int sample = SampleFrom(pixel);
    return sample < kSamples && position_[static_cast<std::size_t>(sample)] == pixel ? sample : -1;
  }

  /// The texels of one sampled row, [kSamples] palette indices. Output row y reads 2 y and 2 y + 1.
  const std::uint8_t* Row(int row) const {
    return &texels_[static_cast<std::size_t>(row) * kSamples];
  }

 private:
  /// The first sample at or after a pixel, which is clamped to the canvas; kSamples if there is
  /// none.
  int SampleFrom(int pixel) const;
  void FillSpan(int row, int x_first, int x_last, std::uint8_t colour);

  std::array<int, kSamples> position_;                    // sample -> pixel
  std::array<std::uint8_t, kCanvasSize + 1> next_;        // pixel -> first sample at or after it
  std::array<std::uint8_t, kSamples * kSamples> texels_;  // [row, column]
};

/// The output pixel (x, y) from two texels of its upper and two of its lower row, as BilinearResize
/// computes it.
Rgb BilinearBlend(int x, int y, std::array<Rgb, 2> upper, std::array<Rgb, 2> lower);

/// cv2.resize with INTER_LINEAR from 512 to 96 pixels, in its fixed-point arithmetic.
class BilinearResize {
 public:
  /// `palette`: at most SampledCanvas::kMaxColours colours.
  explicit BilinearResize(std::span<const Rgb> palette);

  Rgb colour(std::uint8_t index) const { return palette_[index]; }

  /// Writes the output pixels of `region` into `image`, RGB8 [96, 96, 3].
  void Run(const SampledCanvas& canvas, const Region& region, std::span<std::uint8_t> image) const;

 private:
  static constexpr int kPhases = 3;  // 512 / 96 = 16 / 3: the weights repeat every 3 output pixels
  static constexpr int kPairs = SampledCanvas::kMaxColours * SampledCanvas::kMaxColours;
  using Blend = std::array<std::int32_t, 3>;  // two neighbours, as the vertical pass reads them

  std::array<Rgb, SampledCanvas::kMaxColours> palette_ = {};
  std::array<std::array<Blend, kPairs>, kPhases> blends_ = {};  // [phase][left, right colour]
};

}  // namespace dp_bench::pusht
