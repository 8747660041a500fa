// Lines, dots and captions, at the borders of an image and beyond.
#include "media/drawing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <latch>
#include <limits>
#include <numbers>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/images.h"

namespace dp_bench::media {
namespace {

constexpr Colour kWhite = {255, 255, 255};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kFar = 1e300;

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
  EXPECT_EQ(RedAt(image, 2, 2), 0);
}

TEST(Drawing, ALineCoversItsPixelsAndNoOthers) {
  RgbImage image(16, 8);
  DrawPolyline(std::array<ImagePoint, 2>{{{4.0, 3.0}, {10.0, 3.0}}}, 2.0, kWhite, 1.0, &image);
  EXPECT_EQ(RedAt(image, 7, 2), 255);
  EXPECT_EQ(RedAt(image, 7, 3), 255);
  for (const auto& [x, y] :
       {std::array{7, 0}, std::array{7, 5}, std::array{1, 3}, std::array{13, 3}}) {
    EXPECT_EQ(RedAt(image, x, y), 0) << x << ", " << y;
  }
}

TEST(Drawing, JointsAreAsOpaqueAsTheRest) {
  RgbImage image(32, 8);
  const std::array<ImagePoint, 4> points = {{{2, 4}, {10, 4}, {20, 4}, {30, 4}}};
  DrawPolyline(points, 4.0, kWhite, 0.5, &image);
  for (int x = 4; x < 28; ++x) EXPECT_EQ(RedAt(image, x, 4), RedAt(image, 6, 4)) << x;
  EXPECT_NEAR(RedAt(image, 6, 4), 128, 1);
}

TEST(Drawing, LinesAndDiscsAreCutAtTheBorders) {
  for (const int size : {1, 7, 16}) {
    RgbImage image(size, size);
    DrawPolyline(std::array<ImagePoint, 4>{{{-50, -50}, {60, 60}, {-3, 70}, {kFar, -kFar}}}, 3.0,
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
  const std::array<ImagePoint, 5> points = {{{2, 4}, {8, 4}, {kNan, 4}, {20, 4}, {26, 4}}};
  DrawPolyline(points, 2.0, kWhite, 1.0, &image);
  EXPECT_EQ(RedAt(image, 5, 4), 255);
  EXPECT_EQ(RedAt(image, 14, 4), 0);
  EXPECT_EQ(RedAt(image, 23, 4), 255);

  RgbImage empty(8, 8);
  DrawDisc({kNan, 4.0}, 4.0, kWhite, 1.0, &empty);
  DrawPolyline({}, 2.0, kWhite, 1.0, &empty);
  DrawPolyline(std::array<ImagePoint, 2>{{{kNan, 1}, {kNan, 2}}}, 2.0, kWhite, 1.0, &empty);
  EXPECT_EQ(CountDrawn(empty), 0);
}

TEST(Drawing, APointThatIsVeryFarAwayInterruptsALine) {
  RgbImage image(32, 8);
  const std::array<ImagePoint, 4> points = {{{2, 4}, {8, 4}, {kFar, 4}, {-9e5, 4}}};
  DrawPolyline(points, 2.0, kWhite, 1.0, &image);
  EXPECT_EQ(RedAt(image, 5, 4), 255);
  EXPECT_EQ(RedAt(image, 14, 4), 0);
  DrawPolyline(std::array<ImagePoint, 2>{{{-9e5, 4}, {9e5, 4}}}, 2.0, kWhite, 1.0, &image);
  EXPECT_EQ(RedAt(image, 14, 4), 255);
}

TEST(Drawing, OneAndTheSamePointTwiceIsADot) {
  RgbImage image(8, 8);
  DrawPolyline(std::array<ImagePoint, 2>{{{4, 4}, {4, 4}}}, 4.0, kWhite, 1.0, &image);
  EXPECT_EQ(RedAt(image, 4, 4), 255);
  EXPECT_EQ(RedAt(image, 0, 4), 0);
}

TEST(Drawing, ADiscCoversItsArea) {
  RgbImage image(32, 32);
  DrawDisc({16.3, 15.8}, 10.0, kWhite, 1.0, &image);
  double area = 0.0;  // [px]
  for (int y = 0; y < 32; ++y) {
    for (int x = 0; x < 32; ++x) area += RedAt(image, x, y) / 255.0;
  }
  EXPECT_NEAR(area, 100.0 * std::numbers::pi, 3.0);
}

RgbImage Caption(std::string_view text, int height) {
  RgbImage image(16 * height, height);
  DrawCaption(text, 0, 0, height, {}, &image);
  return image;
}

TEST(Drawing, ACaptionIsCutAtTheBorders) {
  for (const auto& [left, top] : {std::array{-3, 6}, std::array{4, -5}, std::array{-1000, 0},
                                  std::array{0, 1000}, std::array{12, 10}}) {
    RgbImage image(12, 10);
    DrawCaption("step 120", left, top, 12, {9, 9, 9}, &image);
    const bool is_visible = left < 12 && left > -100 && top < 10;
    EXPECT_EQ(CountDrawn(image) > 0, is_visible) << left << ", " << top;
  }
  RgbImage image(12, 10);
  DrawCaption("step 120", -3, 6, 12, {9, 9, 9}, &image);
  EXPECT_EQ(RedAt(image, 5, 5), 0) << "above the bar";
  EXPECT_EQ(RedAt(image, 0, 6), 9) << "the bar";
}

TEST(Drawing, TheBarOfACaptionIsAsWideAsItsText) {
  const auto width = [](std::string_view text) {
    RgbImage image(200, 12);
    DrawCaption(text, 0, 0, 12, {9, 9, 9}, &image);
    int n = 0;
    while (n < image.width && RedAt(image, n, 0) == 9) ++n;
    return n;
  };
  EXPECT_EQ(width(""), 6);
  EXPECT_GT(width("score 0.5"), 40);
  EXPECT_LT(width("score 0.5"), 70);
  EXPECT_EQ(width("0123456789"), width("9999999999")) << "figures have one width";
}

TEST(Drawing, ACaptionFitsIntoItsBar) {
  for (int height = 11; height <= 60; ++height) {
    const RgbImage alone = Caption("Agjpqy0", height);
    for (int x = 0; x < alone.width; ++x) {
      EXPECT_EQ(RedAt(alone, x, 0), 0) << height;
      EXPECT_EQ(RedAt(alone, x, height - 1), 0) << height;
    }
  }
}

TEST(Drawing, NoTwoCharactersAreAlike) {
  std::vector<std::string> characters = {"\u00e4", "\u00df", "\u00e9", "\u0142", "\u00d1",
                                         "\u03b1", "\u0416", "\u00b7", "\u00d7", "\u2192"};
  for (char c = '!'; c <= '~'; ++c) characters.emplace_back(1, c);
  constexpr std::string_view kMissing = "\U000e0041";  // the font has no glyph for it
  std::vector<std::vector<std::uint8_t>> images = {Caption(kMissing, 24).pixels};
  for (const std::string& character : characters) {
    const RgbImage image = Caption(character, 24);
    EXPECT_GT(CountDrawn(image), 0) << character;
    EXPECT_EQ(std::ranges::count(images, image.pixels), 0) << character;
    images.push_back(image.pixels);
  }
}

TEST(Drawing, BytesThatAreNotUtf8AreQuestionMarks) {
  EXPECT_EQ(Caption("a\xff z", 20).pixels, Caption("a? z", 20).pixels);
  EXPECT_EQ(Caption("\xc3", 20).pixels, Caption("?", 20).pixels);
}

// An image with everything that can be drawn.
RgbImage Everything(int size) {
  RgbImage image(size, size);
  const std::array<ImagePoint, 3> points = {{{2, 4}, {size - 3.7, size / 2.0}, {3.1, size - 9.0}}};
  DrawPolyline(points, size / 40.0, {20, 200, 90}, 0.7, &image);
  DrawDisc(points[1], size / 10.0, {200, 20, 90}, 0.9, &image);
  DrawCaption("step 120  score 0.53", 3, size / 3, size / 16, {20, 20, 20}, &image);
  return image;
}

TEST(Drawing, ThreadsDrawEqualImages) {
  constexpr int kThreads = 8;
  constexpr int kSizes = 12;  // more sizes than cairo caches, so that threads create them again
  std::vector<std::vector<RgbImage>> images(kThreads);
  {
    std::latch all_are_here(kThreads);
    std::vector<std::jthread> threads;
    for (std::vector<RgbImage>& drawn : images) {
      threads.emplace_back([&] {
        all_are_here.arrive_and_wait();
        for (int i = 0; i < 10 * kSizes; ++i) drawn.push_back(Everything(160 + 16 * (i % kSizes)));
      });
    }
  }
  for (const std::vector<RgbImage>& drawn : images) {
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      ASSERT_EQ(drawn[i].pixels, images[0][i % kSizes].pixels) << i;
    }
  }
  EXPECT_EQ(Everything(160).pixels, images[0][0].pixels);
}

}  // namespace
}  // namespace dp_bench::media
