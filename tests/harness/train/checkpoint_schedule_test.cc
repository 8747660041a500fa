// What is saved at the end of which epoch, and the k best checkpoints.
#include "train/checkpoint_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "dp_bench/error.h"
#include "support/error_of.h"

namespace dp_bench::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Key;
using Metrics = std::map<std::string, double>;

// Ten epochs with a checkpoint every fourth one; nothing is measured unless a test says so.
TrainingConfig TenEpochs() {
  TrainingConfig config;
  config.num_epochs = 10;
  config.checkpoint_every = 4;
  config.rollout_every = config.val_every = config.sample_every = 0;
  return config;
}

std::optional<CheckpointSave> EndEpoch(CheckpointSchedule& schedule, int epoch,
                                       const Metrics& metrics = {}, bool has_scores = false) {
  return schedule.EndEpoch(metrics, has_scores, epoch);
}

std::vector<int> SavedEpochs(CheckpointSchedule& schedule) {
  std::vector<int> epochs;
  for (int epoch = 0; epoch < 10; ++epoch) {
    if (EndEpoch(schedule, epoch)) epochs.push_back(epoch);
  }
  return epochs;
}

TEST(CheckpointSchedule, SavesAtItsPeriodAndAtTheLastEpoch) {
  CheckpointSchedule schedule(TenEpochs(), {});
  EXPECT_THAT(SavedEpochs(schedule), ElementsAre(0, 4, 8, 9));
  TrainingConfig never = TenEpochs();
  never.checkpoint_every = 0;
  CheckpointSchedule at_the_end(never, {});
  EXPECT_THAT(SavedEpochs(at_the_end), ElementsAre(9));
}

TEST(CheckpointSchedule, KeptEpochsAreSavedAlsoWhereNoOtherIsDue) {
  CheckpointSchedule schedule(TenEpochs(), {.keep_every = 3});
  EXPECT_THAT(SavedEpochs(schedule), ElementsAre(0, 3, 4, 6, 8, 9));
  EXPECT_EQ(EndEpoch(schedule, 3)->kept, "epoch=0003");
  EXPECT_EQ(EndEpoch(schedule, 4)->kept, std::nullopt);
}

TEST(CheckpointSchedule, EveryEvaluationIsSavedAndTheBestHaveNames) {
  TrainingConfig config = TenEpochs();
  config.rollout_every = 1;
  CheckpointConfig checkpoint;
  checkpoint.topk.k = 1;
  CheckpointSchedule schedule(config, checkpoint);
  const auto first = EndEpoch(schedule, 1, {{"test/mean_score", 0.5}}, /*has_scores=*/true);
  EXPECT_EQ(first->best, "epoch=0001-test_mean_score=0.500");
  const auto worse = EndEpoch(schedule, 2, {{"test/mean_score", 0.25}}, true);
  EXPECT_EQ(worse->best, std::nullopt);
  const auto better = EndEpoch(schedule, 3, {{"test/mean_score", 0.75}}, true);
  EXPECT_EQ(better->remove, first->best);
  EXPECT_THAT(schedule.topk(), ElementsAre(testing::Pair(*better->best, 0.75)));
}

TEST(CheckpointSchedule, WithAllMetricsAtHandAnUnknownNameIsAnError) {
  TrainingConfig config = TenEpochs();
  config.rollout_every = 1;
  config.val_every = 2;
  CheckpointSchedule schedule(config, {});
  EXPECT_TRUE(EndEpoch(schedule, 1, {{"score", 1.0}}, true)) << "the validation is not due";
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [&] {
                          EndEpoch(schedule, 2, {{"score", 1.0}}, true);
                        }),
              HasSubstr("test_mean_score"));
}

TEST(TopK, KeepsTheKBestUnderTheNamesOfUpstream) {
  TopK topk({.monitor_key = "test_mean_score", .is_max = true, .k = 2});
  EXPECT_EQ(topk.Offer(0, {{"test/mean_score", 0.5}}).best, "epoch=0000-test_mean_score=0.500");
  EXPECT_EQ(topk.Offer(50, {{"test/mean_score", 0.7}}).best, "epoch=0050-test_mean_score=0.700");
  EXPECT_FALSE(topk.Offer(100, {{"test/mean_score", 0.4}}).best);
  const CheckpointSave decision = topk.Offer(150, {{"test/mean_score", 0.8712}});
  EXPECT_EQ(decision.best, "epoch=0150-test_mean_score=0.871");
  EXPECT_EQ(decision.remove, "epoch=0000-test_mean_score=0.500");
  EXPECT_THAT(topk.table(), ElementsAre(Key("epoch=0050-test_mean_score=0.700"),
                                        Key("epoch=0150-test_mean_score=0.871")));
}

TEST(TopK, AnEqualScoreReplacesNothing) {
  TopK topk({.monitor_key = "test_mean_score", .is_max = true, .k = 1});
  topk.Offer(0, {{"test/mean_score", 0.5}});
  EXPECT_FALSE(topk.Offer(1, {{"test/mean_score", 0.5}}).best);
}

TEST(TopK, ModeMinKeepsTheLowest) {
  TopK topk({.monitor_key = "val_loss", .is_max = false, .k = 1});
  topk.Offer(0, {{"val_loss", 0.5}});
  EXPECT_FALSE(topk.Offer(1, {{"val_loss", 0.6}}).best);
  EXPECT_EQ(topk.Offer(2, {{"val_loss", 0.4}}).best, "epoch=0002-val_loss=0.400");
}

TEST(TopK, SurvivesAResumeThroughItsTable) {
  TopK before({.k = 1});
  before.Offer(0, {{"test/mean_score", 0.5}});
  TopK after({.k = 1});
  after.set_table(before.table());
  EXPECT_FALSE(after.Offer(1, {{"test/mean_score", 0.4}}).best);
}

TEST(TopK, ATableOfAnotherMetricRanksNothingAndRemovesNothing) {
  TopK after({.monitor_key = "val_loss", .is_max = false, .k = 1});
  after.set_table({{"epoch=0001-test_mean_score=0.652", 0.652}});
  const CheckpointSave decision = after.Offer(2, {{"val_loss", 0.9}});
  EXPECT_EQ(decision.best, "epoch=0002-val_loss=0.900");
  EXPECT_EQ(decision.remove, std::nullopt);
}

TEST(TopK, SaysWhichMetricsThereAreAndRefusesNaN) {
  TopK topk({.monitor_key = "test_mean_reward"});
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [&] {
                          topk.Offer(0, {{"test/mean_score", 0.5}, {"val_loss", 1.0}});
                        }),
              HasSubstr("test/mean_score, val_loss"));
  EXPECT_THROW(topk.Offer(0, {{"test/mean_reward", std::nan("")}}), Error);
}

}  // namespace
}  // namespace dp_bench::train
