// The stored course of an episode; storing it changes nothing else.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/rollout/fixture.h"
#include "run/episode_log.h"
#include "run/episode_record.h"
#include "support/error_of.h"
#include "support/record_hash.h"

namespace dp_bench::run {
namespace {

using RolloutTest = rollout::RolloutTest;

using testing::HasSubstr;

const std::vector<KeySpec> kKeys = {
    {.name = "image", .type = KeyType::kRgb, .shape = {3, 2, 2}, .dtype = DType::kUInt8},
    {.name = "pos", .shape = {2}}};

EpisodeCourse CourseOf(const std::vector<double>& rewards, bool is_terminated = false) {
  EpisodeCourseKeeper keeper(kKeys, {});
  keeper.Start();
  for (std::size_t i = 0; i < rewards.size(); ++i) {
    keeper.AddStep(rewards[i], is_terminated && i + 1 == rewards.size());
  }
  return keeper.course();
}

// The first step whose observation is outside, with pos seen in [0, 10] x {0.5}.
std::optional<int> UnseenStep(const std::vector<std::array<float, 2>>& positions) {
  const ObsRanges ranges = {{"pos", {.low = {0.0, 0.5}, .high = {10.0, 0.5}}}};
  EpisodeCourseKeeper keeper(kKeys, ranges);
  keeper.Start();
  for (const auto& pos : positions) {
    keeper.AddObservation(0, std::vector<std::byte>(12));
    keeper.AddObservation(1, std::as_bytes(std::span(pos)));
    keeper.AddStep(0.0, false);
  }
  EXPECT_EQ(keeper.course().unseen_key, keeper.course().unseen_step ? "pos" : "");
  return keeper.course().unseen_step;
}

TEST(EpisodeCourse, KeepsFirstLastAndBestReward) {
  const EpisodeCourse course = CourseOf({0.25, 0.5, 0.75, 0.75, 0.625}, /*is_terminated=*/true);
  EXPECT_EQ(course.first_reward, 0.25);
  EXPECT_EQ(course.last_reward, 0.625);
  EXPECT_EQ(course.best_step, 3);  // the first of equal ones; steps start at 1
  EXPECT_TRUE(course.is_terminated);
  EXPECT_FALSE(CourseOf({0.25}).is_terminated);
}

TEST(EpisodeCourse, ProgressIsLostAtTheLastStepAboveHalfWay) {
  EXPECT_EQ(CourseOf({0.0, 1.0, 0.75, 0.25, 0.625, 0.375, 0.0}).lost_step, 5);
  // relative to the highest reward of the episode, not to the highest one so far
  EXPECT_EQ(CourseOf({0.0, 0.5, 0.4, 1.0, 0.4}).lost_step, 4);
}

TEST(EpisodeCourse, ProgressThatIsKeptIsNotLost) {
  EXPECT_FALSE(CourseOf({0.0, 1.0, 0.25, 0.5}).lost_step);  // exactly half is not lost
  EXPECT_FALSE(CourseOf({0.5, 0.5, 0.5}).lost_step);
  EXPECT_FALSE(CourseOf({}).lost_step);
}

TEST(EpisodeCourse, BeginsAnewWithEachEpisode) {
  EpisodeCourseKeeper keeper(kKeys, {});
  keeper.AddStep(3.0, true);
  keeper.Start();
  keeper.AddStep(-1.0, false);
  EXPECT_EQ(keeper.course(),
            (EpisodeCourse{.first_reward = -1.0, .last_reward = -1.0, .best_step = 1}));
}

TEST(EpisodeCourse, AnObservationIsUnseenBeyondAMarginOfItsRange) {
  EXPECT_EQ(UnseenStep({{0.0F, 0.5F}, {10.4F, 0.5F}, {-0.4F, 0.5F}}), std::nullopt);
  EXPECT_EQ(UnseenStep({{5.0F, 0.5F}, {10.6F, 0.5F}, {11.0F, 0.5F}}), 1);
  EXPECT_EQ(UnseenStep({{-0.6F, 0.5F}}), 0);
  EXPECT_EQ(UnseenStep({{std::numeric_limits<float>::quiet_NaN(), 0.5F}}), 0);
}

TEST(EpisodeCourse, ADimensionThatWasConstantMayMoveALittle) {
  EXPECT_EQ(UnseenStep({{5.0F, 0.5005F}}), std::nullopt);
  EXPECT_EQ(UnseenStep({{5.0F, 0.5005F}, {5.0F, 0.502F}}), 1);
}

TEST_F(RolloutTest, ObservationsAreJudgedByTheTrainingDataWithoutChangingAnEpisode) {
  const RunResult plain = Run();
  rollout::FakePlanner planner(4);
  rollout::EnvRunner runner = MakeRunner();
  runner.SetObsRanges({{"step", {.low = {0.0}, .high = {10.0}}}});
  const RunResult judged = runner.Run(planner);
  EXPECT_EQ(HashRecords(judged.records), HashRecords(plain.records));
  for (std::size_t i = 0; i < judged.records.size(); ++i) {
    EXPECT_FALSE(plain.records[i].course->unseen_step);
    // of the steps above 10.5, the plan of step 16 observes these
    EXPECT_EQ(judged.records[i].course->unseen_step, 15);
    EXPECT_EQ(judged.records[i].course->unseen_key, "step");
  }
}

TEST_F(RolloutTest, TheCourseOfAnEpisodeGoesThroughItsRow) {
  world_.end_of = [](std::uint64_t seed) { return seed == 100001 ? 12 : 1 << 30; };
  const RunResult result = Run();
  const std::vector<EpisodeRecord> read =
      ParseEpisodes(EpisodesJsonl(result), "here", result.metric_names);
  for (std::size_t i = 0; i < read.size(); ++i) {
    ASSERT_TRUE(read[i].course);
    EXPECT_EQ(read[i].course, result.records[i].course);
    EXPECT_EQ(read[i].course->is_terminated, read[i].seed == 100001);
  }

  EpisodeRecord full = result.records[0];
  full.course = EpisodeCourse{.first_reward = 0.1,
                              .last_reward = -0.2,
                              .best_step = 3,
                              .best_reward = 0.5,
                              .lost_step = 4,
                              .is_terminated = true,
                              .unseen_step = 5,
                              .unseen_key = "a\"b",
                              .first_obs = "0123456789abcdef"};
  const std::string row = EpisodeRow(full, result.metric_names);
  EXPECT_EQ(ParseEpisodes(row, "here", result.metric_names)[0].course, full.course);
}

TEST_F(RolloutTest, ACourseHasTheHighestRewardOnlyIfTheScoreIsAnotherMetric) {
  const RunResult plain = Run();
  config_.score_metric = "x_last";
  const RunResult other = Run();
  for (std::size_t i = 0; i < plain.records.size(); ++i) {
    EXPECT_FALSE(plain.records[i].course->best_reward);
    EXPECT_EQ(other.records[i].course->best_reward, plain.records[i].score);
  }
}

TEST_F(RolloutTest, ACourseTellsWhichEpisodesBeginAlike) {
  const RunResult result = Run();
  const RunResult again = Run();
  for (std::size_t i = 0; i < result.records.size(); ++i) {
    const std::string& first_obs = result.records[i].course->first_obs;
    EXPECT_EQ(first_obs.size(), 16U);
    EXPECT_EQ(again.records[i].course->first_obs, first_obs);
  }
}

TEST(EpisodeCourse, RowsOfOlderVersionsHaveNone) {
  const std::string row = R"({"episode":0,"split":"test","seed":1,"score":1.0,"success":true,)"
                          R"("n_steps":3)";
  EXPECT_FALSE(ParseEpisodes(row + "}", "here")[0].course);
  for (const char* course : {R"("x")", "{}", R"({"first_reward":0})"}) {
    EXPECT_THAT(MessageOf(ErrorCode::kData,
                          [&] { ParseEpisodes(row + ",\"course\":" + course + "}", "here"); }),
                HasSubstr("here:1: not an episode's row"));
  }
}

}  // namespace
}  // namespace dp_bench::run
