// Plots of awkward data: single points, values without a logarithm, very many points.
#include "report/line_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace dp_bench::report {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(LinePlot, NothingToDrawIsAnEmptyText) {
  EXPECT_EQ(LinePlotSvg({.title = "Loss", .series = {{"train_loss", {}}}}), "");
  EXPECT_EQ(LinePlotSvg({.series = {{"loss", {{0.0, -1.0}, {1.0, 0.0}}}}, .log_y = true}), "");
}

TEST(LinePlot, NumbersThatCannotBeDrawnAreLeftOut) {
  const std::string svg = LinePlotSvg({.series = {{"loss",
                                                   {{0.0, 1.0},
                                                    {1.0, std::nan("")},
                                                    {2.0, 0.0},
                                                    {3.0, std::numeric_limits<double>::infinity()},
                                                    {4.0, 0.1}}}},
                                       .log_y = true});
  EXPECT_EQ(Count(svg, "<circle"), 2U);
  EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

TEST(LinePlot, ASinglePointAndAConstantAreDrawn) {
  for (const double value : {0.0, 1.0, -3.0, 1e-12, 1e12}) {
    const std::string svg = LinePlotSvg({.series = {{"x", {{7.0, value}}}}});
    EXPECT_EQ(Count(svg, "<circle"), 1U) << value;
    EXPECT_THAT(svg, AllOf(Not(HasSubstr("nan")), Not(HasSubstr("inf")))) << value;
  }
}

TEST(LinePlot, ALogarithmicAxisOfANarrowRangeStillHasTicks) {
  const std::string svg =
      LinePlotSvg({.series = {{"loss", {{0.0, 1.05}, {1.0, 1.02}}}}, .log_y = true});
  EXPECT_GE(Count(svg, "text-anchor=\"end\""), 2U) << svg;
}

TEST(LinePlot, ManyPointsAreThinnedOutButTheLastStays) {
  PlotSeries series{"loss", {}};
  for (int i = 0; i <= 100000; ++i) series.points.push_back({static_cast<double>(i), 0.5});
  series.points.back().value = 1.0;
  const std::string svg = LinePlotSvg({.series = {series}});
  EXPECT_LT(svg.size(), 20000U);
  EXPECT_THAT(svg, HasSubstr("466.0,"));  // x of the right edge
}

TEST(LinePlot, ARateShowsTheWholeUnitRange) {
  const std::string svg =
      LinePlotSvg({.series = {{"r", {{0.0, 0.4}, {1.0, 0.5}}}}, .unit_range = true});
  EXPECT_THAT(svg, AllOf(HasSubstr(">0</text>"), HasSubstr(">1</text>")));
}

TEST(LinePlot, MayStartAtZero) {
  LinePlot plot = {.series = {{"n", {{0.0, 40.0}, {1.0, 50.0}}}}};
  EXPECT_THAT(LinePlotSvg(plot), Not(HasSubstr(">20</text>")));
  plot.from_zero = true;
  EXPECT_THAT(LinePlotSvg(plot), HasSubstr(">20</text>"));
}

TEST(LinePlot, MarksStandOnTheAxisWhichReachesThem) {
  const LinePlot plot = {.series = {{"r", {{1.0, 0.4}, {10.0, 0.5}}}}, .x_marks = {0.0, 5.0}};
  const std::string svg = LinePlotSvg(plot);
  EXPECT_THAT(svg, HasSubstr(R"(<path class="mark" d="M52.0 226.0v-7M259.0 226.0v-7"/>)"));
}

TEST(LinePlot, MayBeLow) {
  LinePlot plot = {.series = {{"r", {{0.0, 0.4}, {1.0, 0.5}}}}, .unit_range = true};
  plot.height = 150.0;
  EXPECT_THAT(LinePlotSvg(plot), AllOf(HasSubstr("viewBox=\"0 0 480 150\""),
                                       HasSubstr(R"(y1="116.0")"), HasSubstr(R"(y1="14.0")")));
}

TEST(LinePlot, TitlesAreEscaped) {
  EXPECT_THAT(LinePlotSvg({.title = "<b> \"x\"", .series = {{"x", {{0.0, 1.0}}}}}),
              HasSubstr("aria-label=\"&lt;b&gt; &quot;x&quot;\""));
}

}  // namespace
}  // namespace dp_bench::report
