// The few colours that represent all colours of a film.
#pragma once

#include <cstdint>
#include <vector>

#include "dp_bench/env.h"
#include "media/drawing.h"

namespace dp_bench::media {

/// At most 255 colours, and a lookup from any colour to the nearest of them.
class ColourPalette {
 public:
  static constexpr std::size_t kMaxColours = 255;

  /// 1 to 255 of them.
  explicit ColourPalette(std::vector<Colour> colours);

  const std::vector<Colour>& colours() const { return colours_; }

  /// The index of the colour nearest to the pixel's bin (its upper six bits of each channel).
  std::uint8_t Nearest(const std::uint8_t* rgb) const;

 private:
  std::vector<Colour> colours_;
  std::vector<std::uint8_t> nearest_;  // [bins]
};

/// Counts the colours of pictures.
class ColourHistogram {
 public:
  ColourHistogram();

  void Add(const RgbImage& picture);

  /// Splits the colours into boxes, always the box with the largest scatter and at its mean
  /// (Heckbert 1982, with Wu's criterion of 1991). The mean of each box becomes a colour. A box of
  /// a single colour keeps it exactly, so a picture of few colours does not change. At least one
  /// picture must have been added.
  ColourPalette ChoosePalette() const;

 private:
  struct Bin {
    std::uint64_t n = 0;
    std::uint64_t red = 0;  // sums
    std::uint64_t green = 0;
    std::uint64_t blue = 0;
  };
  std::vector<Bin> bins_;
};

}  // namespace dp_bench::media
