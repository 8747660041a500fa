// What the report says for a reader who must trust and repeat an evaluation.
#include "compare/good_practice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "harness/compare/run_folders.h"

namespace dp_bench::compare {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Seeds from 100000 on; the last one is of the training split.
run::RunFolder FiveEpisodes() {
  run::RunFolder run = {.path = "runs/mine"};
  for (int i = 0; i < 5; ++i) {
    run::EpisodeRecord record = {.episode = i,
                                 .split = i == 4 ? "train" : "test",
                                 .seed = 100000U + static_cast<std::uint64_t>(i),
                                 .n_steps = 30};
    record.course = run::EpisodeCourse{.first_obs = i % 2 == 0 ? "aa" : "b" + std::to_string(i)};
    record.jerk_at_seams = 0.1 * (i + 1);
    record.jerk_elsewhere = 0.01;
    run.episodes.push_back(record);
  }
  run.episodes[0].success = run.episodes[1].success = true;
  run.episodes[0].score = run.episodes[1].score = 1.0;
  run.episodes[0].success_steps = {.first = 3, .longest = 5, .at_end = 5};
  run.episodes[1].success_steps = {.first = 3, .longest = 5, .at_end = 0};
  run.episodes[3].video = "media/test_100003.mp4";
  run.config = R"({"env": {"plugin": "pusht", "params": {"success_threshold": 0.95, "obs": "x"},
                           "perturb": {"delay": 2}}, "env_runner": {"score_metric": "coverage"}})";
  run.seeds = run::SeedUse{.report = {100000, 4}, .selection = {200000, 9}};
  return run;
}

TEST(GoodPracticeTest, SaysWhichStartsWereDrawnAndWhatCountsAsSuccess) {
  const GoodPractice practice = DescribePractice(FiveEpisodes()).value();
  EXPECT_EQ(practice.start.seeds, (run::SeedRange{100000, 4}));
  EXPECT_EQ(practice.start.env, "pusht");
  EXPECT_THAT(practice.start.params, HasSubstr("\"obs\": \"x\""));
  EXPECT_THAT(practice.start.perturbation, HasSubstr("\"delay\": 2"));
  EXPECT_EQ(practice.start.certificate, "");  // nothing was checked
  EXPECT_THAT(practice.success.params, ElementsAre("success_threshold = 0.95"));
  EXPECT_EQ(practice.success.score_metric, "coverage");
  EXPECT_EQ(practice.success.n_lost_again, 1);
  EXPECT_EQ(practice.success.lost_again, 100001U);
  EXPECT_EQ(practice.comparisons.selection, (run::SeedRange{200000, 9}));
}

TEST(GoodPracticeTest, ShowsOneEpisodeOfEachKindOfFailureIfPossibleOneWithAVideo) {
  const GoodPractice practice = DescribePractice(FiveEpisodes()).value();
  ASSERT_EQ(practice.failures.size(), 1U);
  EXPECT_EQ(practice.failures[0].kind, FailureKind::kNeverReached);
  EXPECT_EQ(practice.failures[0].n, 2);
  EXPECT_EQ(practice.failures[0].seed, 100003U);
  EXPECT_TRUE(practice.failures[0].has_video);
}

TEST(GoodPracticeTest, FindsTestSeedsThatBeginAlike) {
  const DuplicateStarts same = DescribePractice(FiveEpisodes())->duplicates;
  EXPECT_EQ(same.n_known, 4);
  EXPECT_EQ(same.n_distinct, 3);
  EXPECT_THAT(same.groups, ElementsAre(ElementsAre(100000U, 100002U)));
}

TEST(GoodPracticeTest, SmoothnessIsTheMedianOfSuccessfulEpisodesAndOfOthers) {
  const GoodPractice practice = DescribePractice(FiveEpisodes()).value();
  EXPECT_EQ(practice.of_success.n, 2);
  EXPECT_DOUBLE_EQ(practice.of_success.at_seams, 0.15);
  EXPECT_DOUBLE_EQ(practice.of_failure.at_seams, 0.35);
  EXPECT_DOUBLE_EQ(practice.of_failure.elsewhere, 0.01);
}

TEST(GoodPracticeTest, WhatIsNotRecordedIsNull) {
  run::RunFolder run = FiveEpisodes();
  for (run::EpisodeRecord& record : run.episodes) {
    record.course.reset();
    record.jerk_at_seams = record.jerk_elsewhere = 0.0;
  }
  run.config.clear();
  run.seeds.reset();
  const nlohmann::json json = ToJson(DescribePractice(run).value());
  EXPECT_TRUE(json["start"]["env"].is_null());
  EXPECT_TRUE(json["duplicates"].is_null());
  EXPECT_TRUE(json["jerk"]["of_success"].is_null());
  EXPECT_TRUE(json["comparisons"]["selection"].is_null());
  EXPECT_EQ(json["failures"][0]["kind"], "unknown");
  run.episodes.clear();
  EXPECT_FALSE(DescribePractice(run));
}

}  // namespace
}  // namespace dp_bench::compare
