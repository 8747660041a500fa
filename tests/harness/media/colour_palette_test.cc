// The colours of a GIF.
#include "media/colour_palette.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "dp_bench/random.h"

namespace dp_bench::media {
namespace {

RgbImage Picture(const std::vector<Colour>& pixels) {
  RgbImage picture(static_cast<int>(pixels.size()), 1);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    std::ranges::copy(pixels[i], picture.pixels.begin() + static_cast<std::ptrdiff_t>(3 * i));
  }
  return picture;
}

Colour Shown(const ColourPalette& palette, const Colour& colour) {
  return palette.colours()[palette.Nearest(colour.data())];
}

TEST(ColourPalette, FewColoursAreKeptExactly) {
  const std::vector<Colour> colours = {{255, 255, 255}, {0, 0, 0}, {198, 40, 40}, {21, 128, 61}};
  ColourHistogram histogram;
  histogram.Add(Picture(colours));
  histogram.Add(Picture({{255, 255, 255}, {255, 255, 255}}));
  const ColourPalette palette = histogram.ChoosePalette();
  EXPECT_THAT(palette.colours(), testing::UnorderedElementsAreArray(colours));
  for (const Colour& colour : colours) EXPECT_EQ(Shown(palette, colour), colour);
}

TEST(ColourPalette, ARareColourIsNotLostInALargeNoisySurface) {
  RandomStream random(3, StreamId::kEnvStart);
  std::vector<Colour> pixels;
  for (int i = 0; i < 100'000; ++i) {
    const auto grey = static_cast<std::uint8_t>(200 + random.UniformInt(56));
    pixels.push_back({grey, static_cast<std::uint8_t>(200 + random.UniformInt(56)), grey});
  }
  const Colour orange = {230, 120, 20};
  for (int i = 0; i < 20; ++i) pixels.push_back(orange);
  ColourHistogram histogram;
  histogram.Add(Picture(pixels));
  EXPECT_EQ(Shown(histogram.ChoosePalette(), orange), orange);
}

TEST(ColourPalette, HasAtMost255ColoursEachNearToThoseItStandsFor) {
  std::vector<Colour> pixels;
  for (int red = 0; red < 256; ++red) {
    for (int green = 0; green < 256; ++green) {
      pixels.push_back({static_cast<std::uint8_t>(red), static_cast<std::uint8_t>(green), 90});
    }
  }
  ColourHistogram histogram;
  histogram.Add(Picture(pixels));
  const ColourPalette palette = histogram.ChoosePalette();
  EXPECT_EQ(palette.colours().size(), ColourPalette::kMaxColours);
  for (const Colour& pixel : pixels) {
    // 255 equal squares over the plane would be 16 wide, so at most 8 away
    for (std::size_t c = 0; c < 3; ++c) {
      ASSERT_LE(std::abs(Shown(palette, pixel)[c] - pixel[c]), 18)
          << int{pixel[0]} << " " << int{pixel[1]};
    }
  }
}

}  // namespace
}  // namespace dp_bench::media
