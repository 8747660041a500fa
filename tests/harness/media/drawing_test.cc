// Lines, dots and captions, at the borders of a picture and beyond.
#include "media/drawing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

namespace dp_bench::media {
namespace {

constexpr Colour kWhite = {255, 255, 255};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kFar = 1e300;

int RedOf(const RgbImage& image, int x, int y) {
  return image.pixels[static_cast<std::size_t>(3 * (y * image.width + x))];
}

int CountDrawn(const RgbImage& image) {
  return static_cast<int>(image.pixels.size()) -
         static_cast<int>(std::ranges::count(image.pixels, 0));
}

TEST(Drawing, AFilledRectangleIsCutAtTheBorders) {
  RgbImage image(8, 6);
  Fill(-3, -2, 5, 4, kWhite, &image);
  EXPECT_EQ(CountDrawn(image), 3 * 2 * 2);
  Fill(100, 100, 5, 5, kWhite, &image);
  Fill(2, 2, -1, 3, kWhite, &image);
  EXPECT_EQ(CountDrawn(image), 3 * 2 * 2);
}

TEST(Drawing, ABorderLeavesTheInsideAlone) {
  RgbImage image(8, 6);
  DrawBorder(2, kWhite, &image);
  EXPECT_EQ(CountDrawn(image), 3 * (8 * 6 - 4 * 2));
  EXPECT_EQ(RedOf(image, 2, 2), 0);
}

TEST(Drawing, ALineCoversItsPixelsAndNoOthers) {
  RgbImage image(16, 8);
  DrawPolyline(std::array<PicturePoint, 2>{{{4.0, 3.0}, {10.0, 3.0}}}, 2.0, kWhite, 1.0, &image);
  EXPECT_EQ(RedOf(image, 7, 2), 255);
  EXPECT_EQ(RedOf(image, 7, 3), 255);
  for (const auto& [x, y] :
       {std::array{7, 0}, std::array{7, 5}, std::array{1, 3}, std::array{13, 3}}) {
    EXPECT_EQ(RedOf(image, x, y), 0) << x << ", " << y;
  }
}

TEST(Drawing, JointsAreAsOpaqueAsTheRest) {
  RgbImage image(32, 8);
  const std::array<PicturePoint, 4> points = {{{2, 4}, {10, 4}, {20, 4}, {30, 4}}};
  DrawPolyline(points, 4.0, kWhite, 0.5, &image);
  for (int x = 4; x < 28; ++x) EXPECT_EQ(RedOf(image, x, 4), RedOf(image, 6, 4)) << x;
  EXPECT_NEAR(RedOf(image, 6, 4), 128, 1);
}

TEST(Drawing, LinesAndDiscsAreCutAtTheBorders) {
  for (const int size : {1, 7, 16}) {
    RgbImage image(size, size);
    DrawPolyline(std::array<PicturePoint, 4>{{{-50, -50}, {60, 60}, {-3, 70}, {kFar, -kFar}}}, 3.0,
                 kWhite, 1.0, &image);
    DrawDisc({-1.0, 5.0}, 4.0, kWhite, 1.0, &image);
    DrawDisc({size + 1.0, size + 1.0}, 4.0, kWhite, 1.0, &image);
    EXPECT_GT(CountDrawn(image), 0);
  }
  RgbImage image(8, 8);
  DrawDisc({-20.0, 4.0}, 4.0, kWhite, 1.0, &image);
  DrawDisc({kFar, kFar}, 4.0, kWhite, 1.0, &image);
  EXPECT_EQ(CountDrawn(image), 0);
}

TEST(Drawing, WhatIsNotFiniteInterruptsALine) {
  RgbImage image(32, 8);
  const std::array<PicturePoint, 5> points = {{{2, 4}, {8, 4}, {kNan, 4}, {20, 4}, {26, 4}}};
  DrawPolyline(points, 2.0, kWhite, 1.0, &image);
  EXPECT_EQ(RedOf(image, 5, 4), 255);
  EXPECT_EQ(RedOf(image, 14, 4), 0);
  EXPECT_EQ(RedOf(image, 23, 4), 255);

  RgbImage empty(8, 8);
  DrawDisc({kNan, 4.0}, 4.0, kWhite, 1.0, &empty);
  DrawPolyline({}, 2.0, kWhite, 1.0, &empty);
  DrawPolyline(std::array<PicturePoint, 2>{{{kNan, 1}, {kNan, 2}}}, 2.0, kWhite, 1.0, &empty);
  EXPECT_EQ(CountDrawn(empty), 0);
}

TEST(Drawing, ACaptionIsCutAtTheBordersAndKnowsLetters) {
  RgbImage image(12, 10);
  DrawCaption("STEP 120", -3, 6, 1, {9, 9, 9}, &image);
  EXPECT_EQ(RedOf(image, 5, 5), 0) << "above the bar";
  EXPECT_EQ(RedOf(image, 0, 6), 9) << "the bar";

  RgbImage upper(40, 14);
  RgbImage lower(40, 14);
  DrawCaption("score", 0, 0, 2, {}, &upper);
  DrawCaption("SCORE", 0, 0, 2, {}, &lower);
  EXPECT_EQ(upper.pixels, lower.pixels);
  EXPECT_GT(CountDrawn(upper), 0);
  RgbImage blank(40, 14);
  DrawCaption("\xff\t ~{", 0, 0, 2, {}, &blank);
  EXPECT_EQ(CountDrawn(blank), 0);
}

TEST(Drawing, NoTwoGlyphsAreAlike) {
  constexpr std::string_view kText = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.- ";
  std::vector<std::vector<std::uint8_t>> glyphs;
  for (const char c : kText) {
    RgbImage image(5, 7);
    DrawCaption(std::string(1, c), 0, 0, 1, {}, &image);
    EXPECT_EQ(std::ranges::count(glyphs, image.pixels), 0) << c;
    glyphs.push_back(image.pixels);
  }
}

}  // namespace
}  // namespace dp_bench::media
