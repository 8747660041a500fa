// How failed episodes are classified, and the text about them.
#include "compare/failure_clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/evaluation_text.h"

namespace dp_bench::compare {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Of 100 steps, without success; the reward starts at 0.
run::EpisodeRecord Failure(double score, const run::EpisodeCourse& course) {
  return {.split = "test", .seed = 100000, .score = score, .n_steps = 100, .course = course};
}

run::EpisodeRecord Success(double score, const run::EpisodeCourse& course = {}) {
  run::EpisodeRecord record = Failure(score, course);
  record.success = true;
  return record;
}

FailureKind KindOf(const run::EpisodeRecord& record, std::vector<run::EpisodeRecord> others = {}) {
  others.push_back(record);
  const std::vector<FailureCluster> clusters = FailureClusters(others, "test");
  EXPECT_EQ(clusters.size(), 1U);
  return clusters.at(0).kind;
}

std::vector<std::string> SignsOf(const std::vector<run::EpisodeRecord>& records) {
  std::vector<std::string> texts;
  const FailureCluster cluster = FailureClusters(records, "test").at(0);
  for (const FailureSign& sign : cluster.signs) texts.push_back(sign.text);
  return texts;
}

TEST(FailureClusters, AnEpisodeThatBrokeFailedToRun) {
  run::EpisodeRecord record = Failure(0.0, {.best_step = 3, .lost_step = 5, .is_terminated = true});
  record.failure_reason = "it broke";
  EXPECT_EQ(KindOf(record), FailureKind::kFailedToRun);
  record.course.reset();
  EXPECT_EQ(KindOf(record), FailureKind::kFailedToRun);
}

TEST(FailureClusters, AnEpisodeThatTheEnvEndedUnsolvedEndedEarly) {
  EXPECT_EQ(KindOf(Failure(0.8, {.best_step = 3, .lost_step = 5, .is_terminated = true})),
            FailureKind::kEndedEarly);
}

TEST(FailureClusters, ProgressThatWasLostDiverged) {
  EXPECT_EQ(KindOf(Failure(0.5, {.best_step = 30, .lost_step = 40})), FailureKind::kDiverged);
}

TEST(FailureClusters, HardlyAnyProgressNeverReached) {
  EXPECT_EQ(KindOf(Failure(0.09, {.best_step = 30})), FailureKind::kNeverReached);
  EXPECT_EQ(KindOf(Failure(0.11, {.best_step = 30})), FailureKind::kTimeout);
  // a tenth of the remaining way from the first reward
  EXPECT_EQ(KindOf(Failure(0.53, {.first_reward = 0.5, .best_step = 30})),
            FailureKind::kNeverReached);
  EXPECT_EQ(KindOf(Failure(0.56, {.first_reward = 0.5, .best_step = 30})), FailureKind::kTimeout);
}

TEST(FailureClusters, WhatWasNeverWonIsNotLost) {
  EXPECT_EQ(KindOf(Failure(0.02, {.best_step = 30, .lost_step = 40})), FailureKind::kNeverReached);
}

TEST(FailureClusters, TheWayIsMeasuredByWhatSuccessfulEpisodesReach) {
  const run::EpisodeRecord record = Failure(2.0, {.best_step = 30});
  EXPECT_EQ(KindOf(record), FailureKind::kTimeout);
  EXPECT_EQ(KindOf(record, {Success(50.0), Success(40.0), Success(60.0)}),
            FailureKind::kNeverReached);
}

TEST(FailureClusters, AScoreThatIsAMetricIsNotComparedWithRewards) {
  // the rewards go from -50 to -1; the metric is a coverage that ends at 0.2
  const run::EpisodeCourse near = {.first_reward = -50.0, .best_step = 90, .best_reward = -3.0};
  const run::EpisodeCourse far = {.first_reward = -50.0, .best_step = 2, .best_reward = -49.0};
  const run::EpisodeRecord solved =
      Success(0.9, {.first_reward = -50.0, .best_step = 40, .best_reward = -1.0});
  EXPECT_EQ(KindOf(Failure(0.2, far), {solved}), FailureKind::kNeverReached);
  EXPECT_EQ(KindOf(Failure(0.2, near), {solved}), FailureKind::kTimeout);
  const FailureCluster cluster =
      FailureClusters(std::vector{solved, Failure(0.2, near)}, "test")[0];
  EXPECT_THAT(cluster.note, HasSubstr("1 came within 5 %"));
  EXPECT_DOUBLE_EQ(cluster.median_score, 0.2);
}

TEST(FailureClusters, RowsWithoutACourseAreNotGuessedAt) {
  run::EpisodeRecord record = Failure(0.5, {});
  record.course.reset();
  EXPECT_EQ(KindOf(record), FailureKind::kUnknown);
  EXPECT_THAT(SignsOf({record}), IsEmpty());
}

TEST(FailureClusters, HoldTheFailuresOfTheirSplitAlone) {
  run::EpisodeRecord other = Failure(0.5, {.best_step = 10});
  other.split = "train";
  const std::vector<run::EpisodeRecord> records = {Success(1.0), Failure(0.5, {.best_step = 50}),
                                                   other, Failure(0.7, {.best_step = 60})};
  const std::vector<FailureCluster> clusters = FailureClusters(records, "test");
  ASSERT_EQ(clusters.size(), 1U);
  EXPECT_THAT(clusters[0].episodes, ElementsAre(&records[1], &records[3]));
  EXPECT_DOUBLE_EQ(clusters[0].median_score, 0.6);
  EXPECT_THAT(FailureClusters(std::span(records).first(1), "test"), IsEmpty());
}

TEST(FailureClusters, TheEarliestSignComesFirst) {
  run::EpisodeCourse course = {.best_step = 30, .lost_step = 40};
  EXPECT_THAT(SignsOf({Failure(0.5, course), Failure(0.5, {.best_step = 32, .lost_step = 60})}),
              ElementsAre("the reward stopped rising at step 31 (median)",
                          "the reward fell below half of its rise for good at step 50 (median)"));
  course.unseen_step = 20;
  course.unseen_key = "agent_pos";
  EXPECT_THAT(SignsOf({Success(1.0, course), Success(1.0), Failure(0.5, course)})[0],
              "observation agent_pos left the range of the training data at step 20 in 1 "
              "of 1; in 1 of 2 successful ones too");
}

TEST(FailureClusters, ARewardThatNeverRoseHasNoStep) {
  EXPECT_THAT(SignsOf({Failure(0.0, {.best_step = 1})}), ElementsAre("the reward never rose"));
}

TEST(FailureClusters, TheLargestComesFirst) {
  const run::EpisodeRecord timeout = Failure(0.5, {.best_step = 30});
  const std::vector<run::EpisodeRecord> records = {Failure(0.0, {}), timeout, timeout};
  EXPECT_EQ(FailureClusters(records, "test")[0].kind, FailureKind::kTimeout);
}

TEST(FailureClusters, WhatFewEpisodesShowIsNoSign) {
  std::vector<run::EpisodeRecord> records(3, Failure(0.5, {.best_step = 30}));
  records[0].course->unseen_step = 2;
  records[0].course->unseen_key = "agent_pos";
  EXPECT_EQ(SignsOf(records).size(), 1U);
}

TEST(FailureClusters, ATimeoutSaysWhetherTheRewardStillRose) {
  const std::vector<run::EpisodeRecord> records = {Failure(0.5, {.best_step = 99}),
                                                   Failure(0.5, {.best_step = 80}),
                                                   Failure(0.5, {.best_step = 81})};
  EXPECT_EQ(FailureClusters(records, "test")[0].note,
            "the reward still rose in the last fifth of 2 of 3: more steps may solve them");
  EXPECT_THAT(FailureClusters(std::vector{Failure(0.96, {.best_step = 30})}, "test")[0].note,
              AllOf(HasSubstr("none rose in the last fifth"), HasSubstr("1 came within 5 %")));
}

TEST(FailureClusters, WhatStillRoseIsNotSaidToHaveStopped) {
  const run::EpisodeRecord rising = Failure(0.5, {.best_step = 95});
  EXPECT_THAT(SignsOf({rising, rising}), IsEmpty());
  EXPECT_THAT(SignsOf({rising, Failure(0.5, {.best_step = 30}), rising}),
              ElementsAre("the reward stopped rising at step 30 in 1 of 3"));
}

TEST(FailureClusters, NoMeaningSpeaksOfSuccessesThatMayNotExist) {
  for (const FailureKind kind : {FailureKind::kEndedEarly, FailureKind::kNeverReached,
                                 FailureKind::kDiverged, FailureKind::kTimeout}) {
    EXPECT_THAT(std::string(MeaningOf(kind)), Not(HasSubstr("successful")));
  }
}

TEST(FailureText, IsEmptyWhenAllSucceeded) {
  const std::vector<run::EpisodeRecord> records = {Success(1.0)};
  EXPECT_EQ(report::FailureText(records), "");
}

TEST(FailureText, NamesClustersAndSigns) {
  const std::vector<run::EpisodeRecord> records = {
      Success(1.0), Failure(0.5, {.best_step = 30, .lost_step = 40})};
  EXPECT_EQ(report::FailureText(records),
            "not successful: 1 of 2 test episodes\n"
            "  1 diverged: the episode made progress and lost more than half of it again; median "
            "score 0.500\n"
            "    earliest sign: the reward stopped rising at step 30\n"
            "    then: the reward fell below half of its rise for good at step 40\n");
}

}  // namespace
}  // namespace dp_bench::compare
