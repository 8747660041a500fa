// Smooth lines over a SampledCanvas: Wu's line ("An efficient antialiasing technique", 1991)
// between whole pixels, with pygame's float32 arithmetic. Its blended colours are not in the
// palette, so the few texels it touches are stored separately.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pusht_raster.h"

namespace dp_bench::pusht {

/// Marks over one drawing. Neither canvas nor resize may change while it is in use.
class SmoothMarks {
 public:
  SmoothMarks(const SampledCanvas& canvas, const BilinearResize& resize)
      : canvas_(canvas), resize_(resize) {}

  /// Blends a line one pixel wide over the canvas and the earlier marks. Unsampled pixels cost
  /// nothing. After 64 sampled pixels, further ones are left out.
  void DrawLine(Pixel a, Pixel b, Rgb colour);

  /// Writes the output pixels that read a mark into `image`, RGB8 [96, 96, 3].
  void Resolve(std::span<std::uint8_t> image) const;

 private:
  struct Texel {
    int row = 0;
    int column = 0;
    Rgb colour;
  };

  void Blend(Pixel pixel, Rgb colour, float weight);
  Rgb ColourAt(int row, int column) const;

  const SampledCanvas& canvas_;
  const BilinearResize& resize_;
  std::array<Texel, 64> texels_;
  std::size_t count_ = 0;
};

}  // namespace dp_bench::pusht
