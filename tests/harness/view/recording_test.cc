// Recorded episodes: their actions in the env, or their images without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness/data/fake_dataset.h"
#include "harness/view/stage_env.h"
#include "support/error_of.h"
#include "view/action_source.h"
#include "view/player.h"

namespace dp_bench::view {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RecordingTest : public testing::Test {
 protected:
  const data::FakeDataset dataset_{{3, 7}};  // episodes of 3 and 4 steps
};

void PlayToTheEnd(Player* player) {
  for (double now = 0.0; !player->status().is_over; now += 1.0) player->Advance(now);
}

TEST_F(RecordingTest, GivesTheActionsOfTheEpisodeAndThenEnds) {
  RecordedSource source(dataset_, {50, 60}, 2);
  source.Begin(1);
  std::vector<float> action(2);
  for (int step = 3; step < 7; ++step) {
    ASSERT_EQ(source.Next(action), Supply::kAction);
    EXPECT_THAT(action, ElementsAre(data::FakeDataset::Action(step, 0),
                                    data::FakeDataset::Action(step, 1)));
  }
  EXPECT_EQ(source.Next(action), Supply::kEnd);
}

TEST_F(RecordingTest, IsPlayedInTheEnvFromItsSeedBeyondTheTimeLimit) {
  rollout::FakeWorld world;
  world.max_steps = 2;
  StageEnv env(world);
  RecordedSource source(dataset_, {50, 60}, 2);
  EXPECT_EQ(source.SeedOf(1), 60U);
  EXPECT_EQ(source.SeedOf(2), std::nullopt);
  Player player(env, source, nullptr, {.first_episode = 0});
  PlayToTheEnd(&player);
  EXPECT_EQ(player.status().step, 3);
  player.Apply(Command::kNextEpisode);
  PlayToTheEnd(&player);
  EXPECT_EQ(player.status().step, 4);
  player.Apply(Command::kNextEpisode);
  EXPECT_EQ(player.status().episode, 1U);
  EXPECT_EQ(player.status().note, "the last episode");
}

TEST_F(RecordingTest, RefusesWhatWasNotRecordedInThisEnv) {
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { RecordedSource source(dataset_, {}, 7); }),
              HasSubstr("have 2 numbers, those of the env 7"));
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { RecordedSource source(dataset_, {1}, 2); }),
              HasSubstr("2 episodes and 1 seeds"));
}

TEST_F(RecordingTest, AnEpisodeThatDoesNotExistIsRefusedWithTheirNumber) {
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { StepsOfEpisode(dataset_, 2); }),
              HasSubstr("no episode 2; the dataset has 2"));
  RecordedEnv env(dataset_, 10.0);
  RecordedSource source(dataset_, {}, 2);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage,
                        [&] { Player player(env, source, nullptr, {.first_episode = 2}); }),
              HasSubstr("no such episode"));
}

TEST_F(RecordingTest, WithoutSeedsItsPicturesAreShown) {
  RecordedEnv env(dataset_, 10.0);
  RecordedSource source(dataset_, {}, 2);
  Player player(env, source, nullptr, {.first_episode = 1});
  RgbImage frame(env.width(), env.height());
  player.Draw(&frame);
  EXPECT_EQ(frame.pixels[5], data::FakeDataset::Image(3, 5));
  player.Advance(0.0);
  player.Draw(&frame);
  EXPECT_EQ(frame.pixels[5], data::FakeDataset::Image(4, 5));
  PlayToTheEnd(&player);
  player.Draw(&frame);
  EXPECT_EQ(frame.pixels[5], data::FakeDataset::Image(6, 5));
  EXPECT_TRUE(std::isnan(player.status().reward));
}

TEST_F(RecordingTest, PicturesStretchToTheFrame) {
  RecordedEnv env(dataset_, 10.0);
  env.Reset(0);
  RgbImage frame(2 * env.width(), 2 * env.height());
  env.Render(&frame);
  // element 3 is the red of the second pixel of the first row
  EXPECT_EQ(frame.pixels[3], data::FakeDataset::Image(0, 0));
  EXPECT_EQ(frame.pixels[6], data::FakeDataset::Image(0, 3));
}

}  // namespace
}  // namespace dp_bench::view
