// The player's state machine, with a clock that the test controls.
#include "view/player.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/view/stage_env.h"
#include "support/error_of.h"

namespace dp_bench::view {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class PlayerTest : public testing::Test {
 protected:
  Player Make(ActionSource& source, const PlayerOptions& options = {}) {
    return Player(env_, source, nullptr, options);
  }

  // The steps executed when the clock goes from `begin_s` to `end_s` in ticks of 10 ms.
  static int StepsBetween(double begin_s, double end_s, Player* player) {
    const int before = player->status().step;
    for (double now = begin_s; now < end_s; now += 0.01) player->Advance(now);
    return player->status().step - before;
  }

  struct ShortWorld : rollout::FakeWorld {
    ShortWorld() { max_steps = 5; }
  };
  ShortWorld world_;
  StageEnv env_{world_};  // 10 Hz
  ExpertSource expert_{env_};
};

TEST_F(PlayerTest, PlaysAtTheEnvsPace) {
  world_.max_steps = 1000;
  StageEnv env(world_);
  ExpertSource expert(env);
  Player player(env, expert, nullptr, {});
  EXPECT_EQ(StepsBetween(0.0, 3.0, &player), 30);
  player.Apply(Command::kFaster);
  EXPECT_NEAR(StepsBetween(3.0, 6.0, &player), 60, 1);
  for (int i = 0; i < 3; ++i) player.Apply(Command::kSlower);
  EXPECT_NEAR(StepsBetween(6.0, 10.0, &player), 10, 1);
}

TEST_F(PlayerTest, WhoeverIsLateDoesNotHurry) {
  Player player = Make(expert_);
  player.Advance(0.0);
  player.Advance(100.0);
  EXPECT_EQ(player.status().step, 2);
  EXPECT_FALSE(player.Advance(100.05));
  EXPECT_TRUE(player.Advance(100.11));
}

TEST_F(PlayerTest, PauseStopsAndASingleStepIsOneStep) {
  Player player = Make(expert_);
  player.Apply(Command::kTogglePause);
  EXPECT_EQ(StepsBetween(0.0, 1.0, &player), 0);
  EXPECT_EQ(player.next_step_s(), std::nullopt);
  player.Apply(Command::kSingleStep);
  EXPECT_EQ(StepsBetween(1.0, 2.0, &player), 1);
  player.Apply(Command::kTogglePause);
  EXPECT_GT(StepsBetween(2.0, 3.0, &player), 1);
}

TEST_F(PlayerTest, ASingleStepPausesWhatPlays) {
  Player player = Make(expert_);
  player.Apply(Command::kSingleStep);
  EXPECT_EQ(StepsBetween(0.0, 1.0, &player), 1);
  EXPECT_TRUE(player.status().is_paused);
}

TEST_F(PlayerTest, EndsAtTheEnvsTimeLimitAndStays) {
  Player player = Make(expert_);
  EXPECT_EQ(StepsBetween(0.0, 10.0, &player), 5);
  EXPECT_TRUE(player.status().is_over);
  EXPECT_FALSE(player.status().success);
  player.Apply(Command::kSingleStep);
  EXPECT_FALSE(player.Advance(11.0));
}

TEST_F(PlayerTest, ALimitOfItsOwnWinsOverTheEnvs) {
  Player player = Make(expert_, {.max_steps = 2});
  EXPECT_EQ(StepsBetween(0.0, 10.0, &player), 2);
  EXPECT_TRUE(player.status().is_over);
}

TEST_F(PlayerTest, ScoreIsTheHighestReward) {
  world_.reward_sign = -1.0;  // rewards fall from step to step
  Player player = Make(expert_);
  StepsBetween(0.0, 10.0, &player);
  EXPECT_LT(player.status().score, 0.0);
  EXPECT_GE(player.status().score, player.status().reward);
}

TEST_F(PlayerTest, TerminationWithSuccessEndsTheEpisode) {
  world_.end_of = [](std::uint64_t seed) { return static_cast<int>(seed); };
  Player player = Make(expert_, {.first_seed = 3});
  EXPECT_EQ(StepsBetween(0.0, 10.0, &player), 3);
  EXPECT_TRUE(player.status().success);
}

TEST_F(PlayerTest, RestartRepeatsTheEpisodeAndNextGoesOn) {
  Player player = Make(expert_, {.first_seed = 7});
  StepsBetween(0.0, 10.0, &player);
  const double score = player.status().score;
  player.Apply(Command::kRestart);
  EXPECT_EQ(player.status().step, 0);
  EXPECT_EQ(player.status().seed, 7U);
  StepsBetween(10.0, 20.0, &player);
  EXPECT_EQ(player.status().score, score);
  player.Apply(Command::kNextEpisode);
  EXPECT_EQ(player.status().seed, 8U);
  EXPECT_FALSE(player.status().is_over);
}

TEST_F(PlayerTest, CamerasFollowEachOtherInACircle) {
  Player player = Make(expert_);
  RgbImage frame(4, 2);
  const auto look = [&] {
    player.Draw(&frame);
    return frame.pixels.front();
  };
  EXPECT_EQ(look(), 0);
  player.Apply(Command::kNextCamera);
  EXPECT_EQ(look(), 100);
  EXPECT_EQ(player.status().camera, "head");
  player.Apply(Command::kNextCamera);
  EXPECT_EQ(look(), 101);
  player.Apply(Command::kNextCamera);
  EXPECT_EQ(look(), 0);
  EXPECT_EQ(player.status().camera, "");
}

TEST_F(PlayerTest, AnEnvWithoutCamerasHasOneImage) {
  rollout::FakeEnv env(world_);
  class Still final : public ActionSource {
   public:
    std::string_view name() const override { return "still"; }
    void Begin(std::uint64_t) override {}
    bool Next(std::span<float>) override { return false; }
  } still;
  Player player(env, still, nullptr, {});
  player.Apply(Command::kNextCamera);
  EXPECT_EQ(player.status().camera, "");
}

TEST_F(PlayerTest, TimeStandsStillWhileAPersonDoesNotDrag) {
  PointerSource human(env_);
  Player player = Make(human);
  EXPECT_EQ(StepsBetween(0.0, 5.0, &player), 0);
  EXPECT_TRUE(player.status().is_waiting);
  EXPECT_EQ(player.next_step_s(), std::nullopt);
  player.Point({.x = 0.5, .y = 0.25, .is_down = true});
  EXPECT_EQ(StepsBetween(5.0, 5.3, &player), 3);
  EXPECT_FALSE(player.status().is_waiting);
}

TEST_F(PlayerTest, AnEpisodeThatBreaksIsShownAsFailedAndTheNextOnePlays) {
  world_.fault_of = [](std::uint64_t seed) {
    return seed == 12 ? rollout::Fault::kThrowInStep : rollout::Fault::kNone;
  };
  world_.fault_step = 2;
  Player player = Make(expert_, {.first_seed = 12});
  StepsBetween(0.0, 10.0, &player);
  EXPECT_THAT(player.status().failure, HasSubstr("it broke"));
  EXPECT_TRUE(player.status().is_over);
  RgbImage frame(2, 2);
  frame.pixels[0] = 77;
  player.Draw(&frame);
  EXPECT_EQ(frame.pixels[0], 77) << "the last good image must stay";

  player.Apply(Command::kNextEpisode);
  StepsBetween(10.0, 20.0, &player);
  EXPECT_THAT(player.status().failure, HasSubstr("no way on")) << "seed 13: the expert gives up";
  player.Apply(Command::kNextEpisode);
  EXPECT_EQ(player.status().failure, "");
  EXPECT_EQ(StepsBetween(20.0, 30.0, &player), 5);
}

TEST_F(PlayerTest, FinishesAfterTheStepsAskedFor) {
  Player player = Make(expert_, {.n_steps = 3});
  StepsBetween(0.0, 10.0, &player);
  EXPECT_EQ(player.status().step, 3);
  EXPECT_TRUE(player.status().is_finished);
  EXPECT_FALSE(player.status().is_over);
}

TEST_F(PlayerTest, FinishesWhenTheEpisodeIsShorter) {
  Player player = Make(expert_, {.n_steps = 100});
  StepsBetween(0.0, 10.0, &player);
  EXPECT_EQ(player.status().step, 5);
  EXPECT_TRUE(player.status().is_finished);
}

TEST_F(PlayerTest, SpeedHasLimits) {
  Player player = Make(expert_, {.speed = 1e9});
  EXPECT_EQ(player.status().speed, kMaxSpeed);
  player.Apply(Command::kFaster);
  EXPECT_EQ(player.status().speed, kMaxSpeed);
  for (int i = 0; i < 40; ++i) player.Apply(Command::kSlower);
  EXPECT_EQ(player.status().speed, kMinSpeed);
}

TEST(ActionSources, NameWhatAnEnvCannotDo) {
  rollout::FakeWorld world;
  rollout::FakeEnv env(world);
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { ExpertSource source(env); }),
              HasSubstr("has no expert"));
  EXPECT_THAT(MessageOf(ErrorCode::kUsage, [&] { PointerSource source(env); }),
              HasSubstr("pointer"));
}

TEST(Commands, EveryKeyOfTheHelpIsKnown) {
  EXPECT_EQ(CommandOf(' '), Command::kTogglePause);
  EXPECT_EQ(CommandOf('.'), Command::kSingleStep);
  EXPECT_EQ(CommandOf('+'), Command::kFaster);
  EXPECT_EQ(CommandOf('-'), Command::kSlower);
  EXPECT_EQ(CommandOf('c'), Command::kNextCamera);
  EXPECT_EQ(CommandOf('r'), Command::kRestart);
  EXPECT_EQ(CommandOf('n'), Command::kNextEpisode);
  EXPECT_EQ(CommandOf('x'), std::nullopt);
}

TEST(Titles, SayWhatIsPlayedAndHowItGoes) {
  PlayerStatus status = {.seed = 3,
                         .step = 17,
                         .max_steps = 300,
                         .reward = 0.4124,
                         .success = true,
                         .speed = 0.25,
                         .source = "expert",
                         .camera = "head"};
  EXPECT_EQ(Title(status), "expert · seed 3 · step 17/300 · reward 0.412 · success · 1/4x · head");
  status = {.seed = 3, .step = 17, .max_steps = 20, .is_over = true, .source = "expert"};
  EXPECT_EQ(Title(status), "expert · seed 3 · step 17/20 · reward 0.000 · over");
  status.failure = "it broke";
  EXPECT_THAT(Title(status), HasSubstr("failed"));
  EXPECT_THAT(Title(status), Not(HasSubstr("over")));
}

}  // namespace
}  // namespace dp_bench::view
