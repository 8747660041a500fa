// When a training counts as no longer improving.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dp_bench/error.h"
#include "train/checkpoint_schedule.h"

namespace dp_bench::train {
namespace {

using testing::HasSubstr;

EarlyStop MakeEarlyStop(const char* config) {
  return EarlyStop(EarlyStopConfig::FromConfig(Config::FromJson(config)));
}

/// The epoch after which a training with these values of val_loss ends; -1: never.
int LastEpoch(const char* config, const std::vector<double>& values) {
  EarlyStop early_stop = MakeEarlyStop(config);
  EarlyStopState state;
  for (int epoch = 0; epoch < static_cast<int>(values.size()); ++epoch) {
    early_stop.Observe(epoch, {{"val_loss", values[static_cast<std::size_t>(epoch)]}},
                       /*is_all_due=*/true, &state);
    if (early_stop.IsOver(state)) return epoch;
  }
  return -1;
}

TEST(EarlyStop, PatienceBeginsAnewWithEachImprovement) {
  EXPECT_EQ(LastEpoch(R"({"patience": 2})", {3, 4, 2, 2, 1, 1.5, 1}), 6);
  EXPECT_EQ(LastEpoch(R"({"patience": 3})", {3, 4, 2, 2, 1, 1.5, 1}), -1);
}

TEST(EarlyStop, ModeMaxWantsLargerValues) {
  EXPECT_EQ(LastEpoch(R"({"patience": 2, "mode": "max"})", {1, 2, 3, 2, 1}), 4);
}

TEST(EarlyStop, ImprovementsUpToMinDeltaDoNotCount) {
  EXPECT_EQ(LastEpoch(R"({"patience": 2, "min_delta": 0.5})", {2, 1.75, 1.5}), 2);
  EXPECT_EQ(LastEpoch(R"({"patience": 2, "min_delta": 0.5})", {2, 1.75, 1.25}), -1);
}

TEST(EarlyStop, ValuesThatAreNotFiniteAreNoImprovement) {
  EXPECT_EQ(LastEpoch(R"({"patience": 2})", {NAN, -INFINITY}), 1);
  EXPECT_EQ(LastEpoch(R"({"patience": 2})", {NAN, 1, INFINITY, 0.5}), -1);
}

TEST(EarlyStop, MetricIsFoundWithSlashOrUnderscore) {
  EarlyStop early_stop = MakeEarlyStop(R"({"monitor": "test_mean_score", "mode": "max"})");
  EarlyStopState state;
  early_stop.Observe(5, {{"test/mean_score", 0.75}}, /*is_all_due=*/true, &state);
  EXPECT_EQ(state.best, 0.75);
  EXPECT_EQ(state.best_epoch, 5);
}

TEST(EarlyStop, WarnsOnceOfAMetricThatNeverComes) {
  EarlyStop early_stop = MakeEarlyStop(R"({"monitor": "val_los"})");
  EarlyStopState state;
  testing::internal::CaptureStderr();
  early_stop.Observe(0, {{"train_loss", 1}}, /*is_all_due=*/false, &state);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  early_stop.Observe(1, {{"train_loss", 1}, {"val_loss", 2}}, /*is_all_due=*/true, &state);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("'val_los', which is not among the metrics of epoch 1: train_loss, val_l"));
  testing::internal::CaptureStderr();
  early_stop.Observe(2, {{"train_loss", 1}}, /*is_all_due=*/true, &state);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(state, EarlyStopState{});
}

TEST(EarlyStop, ReasonNamesMetricBestValueAndEpoch) {
  const EarlyStop early_stop = MakeEarlyStop("{}");
  EXPECT_EQ(early_stop.Reason({.best = 0.125, .best_epoch = 7, .epochs_without_improvement = 10}),
            "val_loss has not improved on 0.125 of epoch 7 for 10 epochs that measured it");
  EXPECT_THAT(early_stop.Reason({.best = 0.125, .epochs_without_improvement = 1}),
              HasSubstr("for 1 epoch that measured it"));
}

TEST(EarlyStop, PatienceBelowOneIsAnError) {
  EXPECT_THROW(MakeEarlyStop(R"({"patience": 0})"), Error);
}

}  // namespace
}  // namespace dp_bench::train
