// What a diagnosis finds in the log of a training.
#include "diagnose/log_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "core/atomic_file.h"
#include "harness/diagnose/log_course.h"
#include "support/scratch_folder.h"

namespace dp_bench::diagnose {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Finding Checked(const char* id, const LogCurves& curves) { return *Find(CheckLog(curves), id); }

double FallingLoss(int step) { return 0.05 + std::exp(-step / 40.0); }

TEST(LogCurves, AreReadWithTheirStepsAndRanges) {
  const ScratchFolder scratch;
  core::WriteFileAtomically(
      scratch.path() / "log",
      "{\"train_loss\": 1.5, \"global_step\": 7, \"train_x0_min\": -1, \"train_x0_max\": 1, "
      "\"train_x0_mean\": 0.25, \"train_x0_std\": 0.5}\n"
      "{\"train_loss\": null, \"global_step\": 8, \"val_loss\": 2, \"train_x0_std\": null}\n"
      "{\"train_lo\n");
  const LogCurves curves = ReadLogCurves(scratch.path() / "log");
  EXPECT_EQ(curves.n_lines, 2U);
  ASSERT_EQ(curves.train_loss.size(), 2U);
  EXPECT_EQ(curves.train_loss[0].step, 7);
  EXPECT_EQ(curves.train_loss[1].step, 8);
  EXPECT_TRUE(std::isnan(curves.train_loss[1].loss));
  ASSERT_EQ(curves.val_loss.size(), 1U);
  EXPECT_EQ(curves.val_loss[0].step, 8);
  ASSERT_EQ(curves.RangesOf("x0").size(), 2U);
  EXPECT_EQ(curves.RangesOf("x0")[0].step, 7);
  EXPECT_EQ(curves.RangesOf("x0")[0].range.mean, 0.25);
  EXPECT_FALSE(curves.RangesOf("x0")[1].range.is_finite());
  EXPECT_TRUE(curves.RangesOf("noise").empty());
}

TEST(LossStatistics, CompareStartAndEnd) {
  const auto loss = StatisticsOf(LossLog(1000, [](int step) { return step < 500 ? 2.0 : 0.1; }));
  ASSERT_TRUE(loss.has_value());
  EXPECT_DOUBLE_EQ(loss->start, 2.0);
  EXPECT_DOUBLE_EQ(loss->end, 0.1);
  EXPECT_DOUBLE_EQ(loss->fall(), 0.95);
  EXPECT_EQ(loss->lowest, 0.1);
  EXPECT_EQ(loss->highest, 2.0);
  EXPECT_EQ(loss->n_not_finite, 0U);
}

TEST(LossStatistics, LeaveOutWhatIsNotFinite) {
  const auto loss = StatisticsOf(LossLog(100, [](int step) { return step < 5 ? kNan : 1.0; }));
  ASSERT_TRUE(loss.has_value());
  EXPECT_EQ(loss->n_not_finite, 5U);
  EXPECT_EQ(loss->n_steps, 95U);
  EXPECT_FALSE(StatisticsOf(LossLog(3, [](int) { return kNan; })).has_value());
  EXPECT_FALSE(StatisticsOf({}).has_value());
}

TEST(LossStatistics, SayWhenTheOutliersWere) {
  const auto early = StatisticsOf(LossLog(1000, [](int step) { return step < 8 ? 9.0 : 1.0; }));
  EXPECT_EQ(early->n_outliers, 8U);
  EXPECT_EQ(early->n_late_outliers, 0U);
  EXPECT_EQ(early->last_outlier, 7.0);
  const auto late =
      StatisticsOf(LossLog(1000, [](int step) { return step == 400 || step == 600 ? 9.0 : 1.0; }));
  EXPECT_EQ(late->n_outliers, 2U);
  EXPECT_EQ(late->n_late_outliers, 2U);
  EXPECT_EQ(late->first_outlier, 400.0);
  EXPECT_EQ(OutliersInWords(*late),
            "2 of 1000 steps (0.20 %), from step 400 to 600, 2 of them after the first tenth");
}

TEST(LossStatistics, FindThePlateauAtTheEnd) {
  const auto flat = StatisticsOf(LossLog(400, FallingLoss));
  ASSERT_TRUE(flat->plateau.has_value());
  EXPECT_NEAR(flat->plateau->first_step, 240.0, 20.0);
  EXPECT_NEAR(flat->plateau->loss, 0.05, 0.005);
  const auto falling = StatisticsOf(LossLog(400, [](int step) { return std::exp(-step / 100.0); }));
  EXPECT_FALSE(falling->plateau.has_value());
}

TEST(LossPlateau, IsANoteWithItsStep) {
  const Finding plateau = Checked("E.loss_plateau", LossLog(400, FallingLoss));
  EXPECT_EQ(plateau.verdict, Judgement::kConfirmed);
  EXPECT_FALSE(plateau.is_problem());
  EXPECT_THAT(plateau.evidence, AllOf(HasSubstr("% less"), HasSubstr("since step ")));
  EXPECT_EQ(
      Checked("E.loss_plateau", LossLog(400, [](int step) { return std::exp(-step / 100.0); }))
          .verdict,
      Judgement::kRejected);
  EXPECT_EQ(Checked("E.loss_plateau", LossLog(50, FallingLoss)).verdict, Judgement::kInconclusive);
}

TEST(LossSpikes, AreFoundAfterTheStartOnly) {
  const auto spiky = [](int step) { return step % 40 == 39 ? 5.0 : 1.0; };
  const Finding spikes = Checked("E.loss_spikes", LossLog(1000, spiky));
  EXPECT_EQ(spikes.verdict, Judgement::kConfirmed);
  EXPECT_FALSE(spikes.is_problem());
  EXPECT_THAT(spikes.evidence, HasSubstr("25 of 1000 steps (2.50 %), from step 39 to 999"));
  EXPECT_EQ(Checked("E.loss_spikes",
                    LossLog(1000, [&](int step) { return step < 90 ? spiky(step) : 1.0; }))
                .verdict,
            Judgement::kRejected);
}

/// A course of the predicted x_0, whose x_0 has std 0.5 and mean 0.
Finding Course(double std_at_end, double mean_at_end) {
  return Checked("D.predicted_x0_course",
                 PredictionLog([=](double at) { return 0.3 + at * (std_at_end - 0.3); },
                               [=](double at) { return at * mean_at_end; }));
}

TEST(PredictedX0Course, IsHealthyIfItApproachesX0) {
  const Finding healthy = Course(0.49, 0.01);
  EXPECT_EQ(healthy.verdict, Judgement::kRejected) << healthy.evidence;
  EXPECT_THAT(healthy.evidence, AllOf(StartsWith("early ["), HasSubstr("late ["),
                                      HasSubstr("0 of 100 steps with NaN or Inf")));
}

TEST(PredictedX0Course, IsAProblemIfItEndsTooNarrowTooWideOrShifted) {
  EXPECT_THAT(Course(0.2, 0.0).evidence, StartsWith("too narrow: "));
  EXPECT_THAT(Course(1.2, 0.0).evidence, StartsWith("too wide: "));
  EXPECT_THAT(Course(0.5, 0.2).evidence, StartsWith("shifted: "));
  EXPECT_TRUE(Course(0.2, 0.0).is_problem());
}

TEST(PredictedX0Course, IsAProblemIfItDriftsAwayFromX0) {
  const Finding drift =
      Checked("D.predicted_x0_course",
              PredictionLog([](double at) { return at < 0.5 ? 0.5 : 0.5 + 0.6 * (at - 0.5); },
                            [](double) { return 0.0; }));
  EXPECT_TRUE(drift.is_problem());
  EXPECT_THAT(drift.evidence, StartsWith("drifts: "));
}

TEST(PredictedX0Course, IsAProblemIfItWasNotFinite) {
  LogCurves curves = PredictionLog([](double) { return 0.5; }, [](double) { return 0.0; });
  curves.ranges["predicted_x0"][40].range = {};
  const Finding broken = Checked("D.predicted_x0_course", curves);
  EXPECT_TRUE(broken.is_problem());
  EXPECT_THAT(broken.evidence, HasSubstr("1 of 100 steps with NaN or Inf"));
}

TEST(PredictedX0Course, SkipsStepsWithoutAPrediction) {
  LogCurves curves = PredictionLog([](double) { return 0.5; }, [](double) { return 0.0; });
  auto& predicted = curves.ranges["predicted_x0"];
  predicted.erase(predicted.begin() + 30, predicted.begin() + 40);
  EXPECT_EQ(Checked("D.predicted_x0_course", curves).verdict, Judgement::kRejected);
}

TEST(PredictedX0Course, IsOpenWithoutEnoughPoints) {
  const Finding open = Checked("D.predicted_x0_course", LossLog(400, FallingLoss));
  EXPECT_EQ(open.verdict, Judgement::kInconclusive);
  EXPECT_THAT(open.evidence, HasSubstr("logging.ranges_every"));
}

TEST(PredictedX0, ThatReachesFarBeyondX0IsTooWide) {
  const ValueRange x_0 = {.min = -1.0, .max = 1.0, .mean = 0.0, .std = 0.5};
  EXPECT_THAT(CheckPredictedX0({.min = -1.0, .max = 7.0, .mean = 0.0, .std = 0.6}, x_0).evidence,
              StartsWith("too wide: "));
  EXPECT_EQ(CheckPredictedX0({.min = -1.3, .max = 1.2, .mean = 0.0, .std = 0.5}, x_0).verdict,
            Judgement::kRejected);
  EXPECT_TRUE(CheckPredictedX0({}, x_0).is_problem());
  EXPECT_EQ(CheckPredictedX0({}, {}).verdict, Judgement::kInconclusive);
}

}  // namespace
}  // namespace dp_bench::diagnose
