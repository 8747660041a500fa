// Small plots in rows: their scale, and what lies beyond it.
#include "media/curve_panels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace dp_bench::media {
namespace {

/// Whether a pixel of this column is blue rather than grey: part of the first curve.
bool IsCurveIn(const RgbImage& image, int x, int y) {
  const auto i = static_cast<std::size_t>(3 * (y * image.width + x));
  return image.pixels[i + 2] > image.pixels[i] + 20;
}

/// The topmost row of the first curve in a column; -1 if there is none.
int TopOf(const RgbImage& image, int x) {
  for (int y = 0; y < image.height; ++y) {
    if (IsCurveIn(image, x, y)) return y;
  }
  return -1;
}

TEST(CurvePanels, StandInRowsOfOneSize) {
  const RgbImage image = DrawCurvePanels({{{.caption = "a"}, {.caption = "b"}}, {{}}}, 1.0);
  EXPECT_EQ(image.width, 2 * kPanelWidth);
  EXPECT_EQ(image.height, 2 * kPanelHeight);
}

TEST(CurvePanels, ALargerValueIsHigher) {
  const RgbImage image =
      DrawCurvePanels({{{.curves = {{0.5F, 0.5F}}}, {.curves = {{-0.5F, -0.5F}}}}}, 1.0);
  const int upper = TopOf(image, kPanelWidth / 2);
  const int lower = TopOf(image, kPanelWidth + kPanelWidth / 2);
  ASSERT_GE(upper, 0);
  EXPECT_GT(lower, upper + 20);
}

TEST(CurvePanels, AValueBeyondTheLimitIsAtTheEdgeOfItsOwnPanel) {
  const RgbImage image =
      DrawCurvePanels({{{.curves = {{0.0F, 0.0F}}}}, {{.curves = {{9.0F, 9.0F}}}}}, 1.0);
  const int x = kPanelWidth / 2;
  int n_above = 0;
  for (int y = 0; y < kPanelHeight; ++y) n_above += IsCurveIn(image, x, y) ? 1 : 0;
  EXPECT_LE(n_above, 4) << "only the upper panel's own curve";
  bool is_below = false;
  for (int y = kPanelHeight; y < kPanelHeight + 30; ++y) is_below |= IsCurveIn(image, x, y);
  EXPECT_TRUE(is_below);
}

TEST(CurvePanels, APaleCurveIsPaler) {
  const auto blackest = [](const CurvePanel& panel) {
    const RgbImage image = DrawCurvePanels({{panel}}, 1.0);
    int lowest = 255;
    for (int y = 30; y < kPanelHeight; ++y) {
      const auto i = static_cast<std::size_t>(3 * (y * image.width + kPanelWidth / 2));
      if (IsCurveIn(image, kPanelWidth / 2, y)) lowest = std::min(lowest, int{image.pixels[i]});
    }
    return lowest;
  };
  const Curves curves = {{0.5F, 0.5F}};
  EXPECT_GT(blackest({.pale = curves}), blackest({.curves = curves}) + 50);
}

TEST(CurvePanels, AValueThatIsNotFiniteInterruptsTheCurve) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RgbImage image = DrawCurvePanels({{{.curves = {{0.5F, nan, 0.5F}}}}}, 1.0);
  EXPECT_EQ(TopOf(image, kPanelWidth / 2), -1);
}

}  // namespace
}  // namespace dp_bench::media
