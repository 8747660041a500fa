// What the report says for a reader who must trust and repeat an evaluation.
#include "report/good_practice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dp_bench::report {
namespace {

using Json = nlohmann::json;
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
  const Json practice = PracticeJson(FiveEpisodes());
  const Json& start = practice["start"];
  EXPECT_EQ(start["seeds"], (Json{{"first", 100000}, {"n", 4}}));
  EXPECT_EQ(start["env"], "pusht");
  EXPECT_THAT(start["params"].get<std::string>(), HasSubstr("\"obs\": \"x\""));
  EXPECT_THAT(start["perturbation"].get<std::string>(), HasSubstr("\"delay\": 2"));
  EXPECT_EQ(start["certificate"], "");  // nothing was checked
  const Json& success = practice["success"];
  EXPECT_EQ(success["params"], Json::array({"success_threshold = 0.95"}));
  EXPECT_EQ(success["score_metric"], "coverage");
  EXPECT_EQ(success["n_lost_again"], 1);
  EXPECT_EQ(success["lost_again"], 100001);
  EXPECT_EQ(success["lost_href"], "");
  EXPECT_EQ(practice["comparisons"], (Json{{"selection", {{"first", 200000}, {"n", 9}}}}));
}

TEST(GoodPracticeTest, ShowsOneEpisodeOfEachKindOfFailureIfPossibleOneWithAVideo) {
  const Json failures = PracticeJson(FiveEpisodes())["failures"];
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0]["kind"], "never reached");
  EXPECT_EQ(failures[0]["n"], 2);
  EXPECT_EQ(failures[0]["seed"], 100003);
  EXPECT_EQ(failures[0]["href"], "#test_100003");
}

TEST(GoodPracticeTest, FindsTestSeedsThatBeginAlike) {
  EXPECT_EQ(PracticeJson(FiveEpisodes())["duplicates"],
            (Json{{"n_known", 4}, {"n_distinct", 3}, {"groups", Json::array({"100000, 100002"})}}));
}

TEST(GoodPracticeTest, SmoothnessIsTheMedianOfSuccessfulEpisodesAndOfOthers) {
  const Json jerk = PracticeJson(FiveEpisodes())["jerk"];
  EXPECT_EQ(jerk["of_success"]["n"], 2);
  EXPECT_DOUBLE_EQ(jerk["of_success"]["at_seams"], 0.15);
  EXPECT_DOUBLE_EQ(jerk["of_failure"]["at_seams"], 0.35);
  EXPECT_DOUBLE_EQ(jerk["of_failure"]["elsewhere"], 0.01);
}

TEST(GoodPracticeTest, WhatIsNotRecordedIsNotThere) {
  run::RunFolder run = FiveEpisodes();
  for (run::EpisodeRecord& record : run.episodes) {
    record.course.reset();
    record.jerk_at_seams = record.jerk_elsewhere = 0.0;
  }
  run.config.clear();
  run.seeds.reset();
  const Json practice = PracticeJson(run);
  EXPECT_EQ(practice["start"]["env"], "");
  EXPECT_TRUE(practice["duplicates"].is_null());
  EXPECT_TRUE(practice["jerk"]["of_success"].is_null());
  EXPECT_EQ(practice["has_jerk"], false);
  EXPECT_TRUE(practice["comparisons"].empty());
  EXPECT_EQ(practice["failures"][0]["kind"], "unknown");
  run.episodes.clear();
  EXPECT_TRUE(PracticeJson(run).is_null());
}

}  // namespace
}  // namespace dp_bench::report
