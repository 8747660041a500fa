// Plans and paths as SVG: what is drawn, what is left out, and the size of the result.
#include "report/video_plots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace dp_bench::report {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two plans of two steps each; one mark that goes to the right, four steps of reward.
run::VideoNotes Notes() {
  return {.n_action_steps = 2,
          .action_dim = 2,
          .n_marks = 1,
          .plan_step = {0, 2},
          .plan = {0.0F, 1.0F, 0.0F, 2.0F, 0.0F, 3.0F, 0.5F, 9.0F},
          .plan_marks = {0.125F, 0.5F, 0.25F, 0.5F, 0.375F, 0.25F, 0.5F, 0.25F},
          .state_marks = {0.0F, 0.5F, 0.125F, 0.5F, 0.25F, 0.5F, 0.375F, 0.5F, 0.5F, 0.5F},
          .reward = {0.0, 0.25, 0.5, 0.25},
          .success = {0, 0, 1, 0}};
}

TEST(PlannedPaths, DrawsTheExecutedPathAndPlansInTwoColoursAcrossTheWholeImage) {
  const std::string svg = PlannedPathsSvg(Notes(), 1.0);
  EXPECT_THAT(svg, HasSubstr("viewBox=\"-40 85 580 580\""));
  EXPECT_THAT(
      svg,
      HasSubstr(R"(<path class="executed" d="M0 500L0 500 125 500 250 500 375 500 500 500 "/>)"));
  // each from where the hand was
  EXPECT_THAT(svg, HasSubstr(R"(<path class="series-0" d="M0 500L0 500 125 500 250 500 "/>)"));
  EXPECT_THAT(svg, HasSubstr(R"(<path class="series-1" d="M250 500L250 500 375 250 500 250 "/>)"));
  EXPECT_THAT(svg, AllOf(HasSubstr(R"(class="start" cx="0" cy="500")"),
                         HasSubstr(R"(class="end" cx="500" cy="500")")));
}

TEST(PlannedPaths, KeepTheProportionsOfTheImage) {
  const std::string svg = PlannedPathsSvg(Notes(), 0.5);
  EXPECT_THAT(svg, AllOf(HasSubstr("viewBox=\"-40 43 580 290\""), HasSubstr("M0 250L")));
}

TEST(PlannedPaths, WhatTheImageDoesNotShowIsLeftOut) {
  run::VideoNotes notes = Notes();
  notes.state_marks[4] = kNan;  // after two steps
  notes.plan_marks[0] = kNan;
  const std::string svg = PlannedPathsSvg(notes, 1.0);
  EXPECT_THAT(svg, AllOf(HasSubstr("M0 500L0 500 125 500 M375 500L"), HasSubstr("M250 500L"),
                         Not(HasSubstr("nan"))));
  std::ranges::fill(notes.state_marks, kNan);
  EXPECT_EQ(PlannedPathsSvg(notes, 1.0), "");
  notes.n_marks = 0;
  EXPECT_EQ(PlannedPathsSvg(notes, 1.0), "");
}

TEST(PlannedPaths, AnEpisodeWithoutAStepIsAPoint) {
  const run::VideoNotes notes = {
      .n_action_steps = 2, .action_dim = 1, .n_marks = 1, .state_marks = {0.5F, 0.5F}};
  EXPECT_THAT(PlannedPathsSvg(notes, 1.0), HasSubstr("d=\"M500 500L500 500 \""));
  EXPECT_EQ(LinePlotSvg(RewardPlot(notes)), "");
  EXPECT_EQ(LinePlotSvg(ActionPlot(notes)), "");
}

TEST(PlannedPaths, LongEpisodesAreThinnedOutButTheirEndsStay) {
  run::VideoNotes notes = {.n_action_steps = 8, .action_dim = 1, .n_marks = 1};
  for (int step = 0; step < 20000; ++step) {
    notes.state_marks.insert(notes.state_marks.end(), {0.5F, static_cast<float>(step) / 20000.0F});
    notes.reward.push_back(0.0);
    if (step % 8 != 0) continue;
    notes.plan_step.push_back(step);
    notes.plan.insert(notes.plan.end(), 8, 0.0F);
    notes.plan_marks.insert(notes.plan_marks.end(), 16, 0.25F);
  }
  notes.state_marks.insert(notes.state_marks.end(), {0.5F, 1.0F});
  const std::string svg = PlannedPathsSvg(notes, 1.0);
  EXPECT_LT(svg.size(), 150000U);
  EXPECT_THAT(svg, HasSubstr("500 1000 \"/>"));
}

TEST(RewardPlot, ShowsTheRewardAfterEachStepAndWhereChunksBegin) {
  const LinePlot plot = RewardPlot(Notes());
  ASSERT_EQ(plot.series.size(), 1U);
  EXPECT_EQ(plot.series[0].points[2].epoch, 3.0);
  EXPECT_EQ(plot.series[0].points[2].value, 0.5);
  EXPECT_THAT(plot.x_marks, ElementsAre(0.0, 2.0));
}

TEST(ActionPlot, ShowsTheDimensionsThatMoveMost) {
  run::VideoNotes notes = {.n_action_steps = 2, .action_dim = 6, .plan_step = {0}};
  notes.plan = {0, 0, 0, 0, 0, 0, /**/ 1, 6, 5, 2, 4, 3};
  std::vector<std::string> labels;
  for (const PlotSeries& series : ActionPlot(notes).series) labels.push_back(series.label);
  EXPECT_THAT(labels, ElementsAre("dimension 1", "dimension 2", "dimension 4", "dimension 5"));
}

TEST(ActionPlot, ShowsOfOverlappingChunksTheLatestOne) {
  run::VideoNotes notes = Notes();
  notes.plan_step = {0, 1};
  const LinePlot plot = ActionPlot(notes);
  std::vector<double> steps;
  std::vector<double> values;
  for (const run::CurvePoint& point : plot.series[1].points) {
    steps.push_back(point.epoch);
    values.push_back(point.value);
  }
  EXPECT_THAT(steps, ElementsAre(0.0, 1.0, 2.0));
  EXPECT_THAT(values, ElementsAre(1.0, 3.0, 9.0));
}

}  // namespace
}  // namespace dp_bench::report
