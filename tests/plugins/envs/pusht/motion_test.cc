// Goals that move, wind, and the task to follow the goal.
#include "motion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "coverage.h"
#include "make_env.h"
#include "support/env_state.h"
#include "support/error_of.h"

namespace dp_bench::pusht {
namespace {

using testing::HasSubstr;

constexpr char kMovingGoal[] = R"({"obs": ["goal"], "goal_motion": {"speed": 40, "turn": 3}})";
constexpr char kWindy[] = R"({"obs": ["keypoint"], "wind": {"speed": 20}})";
constexpr char kFollow[] = R"({"obs": ["goal"], "max_steps": 100,
    "goal_motion": {"speed": 60, "turn": 3}, "follow": {"radius": 20, "hold_steps": 20}})";

/// Steps in which the agent stays in its corner; the goal or the block never gets there.
void Wait(PushtEnv& env, int n_steps) {
  for (int i = 0; i < n_steps; ++i) env.Step(std::vector<float>{20.0F, 20.0F});
}

/// The expert's share of successes if each action is executed `n_late` steps after its observation.
double SuccessRate(const std::string& params, int n_late, int n_episodes) {
  PushtEnv env = Make(params);
  int n_solved = 0;
  for (int episode = 0; episode < n_episodes; ++episode) {
    const auto seed = static_cast<std::uint64_t>(100000 + episode);
    env.Reset(seed);
    env.BeginExpert(seed);
    std::deque<std::vector<float>> actions;
    bool is_over = false;
    for (int step = 0; step < env.spec().max_steps && !is_over; ++step) {
      std::vector<float> action(2);
      env.Act(action);
      actions.push_back(action);
      if (static_cast<int>(actions.size()) > n_late + 1) actions.pop_front();
      const StepResult result = env.Step(actions.front());
      is_over = result.terminated;
      if (result.success) ++n_solved;
    }
  }
  return static_cast<double>(n_solved) / n_episodes;
}

std::string Refusal(const std::string& params) {
  return MessageOf(ErrorCode::kConfig, [&] { Make(params); });
}

TEST(PushtMotion, AWorldThatRestsSaysSo) {
  EXPECT_FALSE(Make().spec().moves_without_actions);
  EXPECT_EQ(Make().spec().abilities.state_size, PushtEnv::kStateSize);
  EXPECT_TRUE(Make(kMovingGoal).spec().moves_without_actions);
  EXPECT_TRUE(Make(kWindy).spec().moves_without_actions);
  const PushtEnv still = Make(R"({"goal_motion": {"speed": 0}, "wind": {"speed": 0}})");
  EXPECT_FALSE(still.spec().moves_without_actions);
}

TEST(PushtMotion, TheGoalKeepsItsSpeedTurnsAtALimitedRateAndStaysOnTheTable) {
  PushtEnv env = Make(kMovingGoal);
  env.Reset(5);
  std::vector<float> last = Look(env);
  int n_bounces = 0;
  for (int step = 0; step < 1000; ++step) {
    Wait(env, 1);
    const std::vector<float> goal = Look(env);
    EXPECT_NEAR(goal[0], last[0] + 0.1F * last[2], 1e-3);
    EXPECT_NEAR(goal[1], last[1] + 0.1F * last[3], 1e-3);
    EXPECT_NEAR(std::hypot(goal[2], goal[3]), 40.0, 1e-3);
    EXPECT_LT(std::hypot(goal[0] - kGoalPose.x, goal[1] - kGoalPose.y), 125.0);
    const double turn =
        std::remainder(std::atan2(goal[3], goal[2]) - std::atan2(last[3], last[2]), 2.0 * kPi);
    if (std::abs(turn) > 0.3 + 1e-5) ++n_bounces;  // 3 rad/s for 0.1 s
    last = goal;
  }
  EXPECT_GT(n_bounces, 3);
  EXPECT_LT(n_bounces, 100);
}

TEST(PushtMotion, IsAFunctionOfTheSeed) {
  PushtEnv used = Make(kMovingGoal);
  PushtEnv fresh = Make(kMovingGoal);
  used.Reset(1);
  Wait(used, 7);
  const std::vector<float> other = Look(used);
  used.Reset(2);
  fresh.Reset(2);
  Wait(used, 30);
  Wait(fresh, 30);
  EXPECT_EQ(Look(used), Look(fresh));
  EXPECT_NE(Look(used), other);
}

TEST(PushtMotion, AStateContinuesBitForBit) {
  for (const char* const params : {kMovingGoal, kFollow, kWindy}) {
    PushtEnv env = Make(params);
    PushtEnv copy = Make(params);
    env.Reset((std::uint64_t{9} << 32) + 5);
    Wait(env, 13);
    copy.SetState(StateOf(env));
    for (int step = 0; step < 20; ++step) {
      Wait(env, 1);
      Wait(copy, 1);
      ASSERT_EQ(StateOf(env), StateOf(copy)) << params << ", step " << step;
    }
  }
  PushtEnv env = Make(kMovingGoal);
  env.Reset(0);
  std::vector<double> state = StateOf(env);
  state[state.size() - 2] = 1.5;  // the number of steps
  EXPECT_THROW(env.SetState(state), Error);
}

TEST(PushtMotion, TheWindCarriesABlockThatNothingTouches) {
  PushtEnv env = Make(R"({"obs": ["wind"], "wind": {"speed": 20}})");
  env.Reset(3);
  const std::vector<float> wind = Look(env);
  EXPECT_NEAR(std::hypot(wind[0], wind[1]), 20.0, 1e-4);
  const std::vector<double> before = StateOf(env);
  Wait(env, 10);
  const std::vector<double> after = StateOf(env);
  EXPECT_NEAR(after[4] - before[4], wind[0], 0.3);  // one second
  EXPECT_NEAR(after[5] - before[5], wind[1], 0.3);
  EXPECT_EQ(after[6], before[6]);
}

TEST(PushtMotion, CoverageIsThatOfTheGoalWhereItIsNow) {
  PushtEnv env = Make(kMovingGoal);
  env.Reset(4);
  Wait(env, 20);
  std::vector<double> state = StateOf(env);
  const std::vector<float> goal = Look(env);
  // where the goal will be after the step
  state[4] = goal[0] + 0.1 * goal[2];
  state[5] = goal[1] + 0.1 * goal[3];
  state[6] = kGoalPose.angle;
  env.SetState(state);
  const StepResult result = env.Step(std::vector<float>{20.0F, 20.0F});
  EXPECT_TRUE(result.success);
  EXPECT_NEAR(result.metrics[0], 1.0, 1e-5);
}

TEST(PushtMotion, ImagesShowTheGoalWhereItIs) {
  PushtEnv env = Make(R"({"obs": ["image"], "goal_motion": {"speed": 60}, "follow": {}})");
  env.Reset(6);
  std::vector<double> state = StateOf(env);
  state[4] = state[5] = 400.0;  // the block is out of the way
  std::vector<std::uint8_t> image(std::size_t{96} * 96 * 3);
  std::vector<std::span<std::byte>> views = {std::as_writable_bytes(std::span(image))};
  for (const double offset : {-80.0, 0.0}) {
    state[12] = state[13] = offset;
    env.SetState(state);
    env.Observe({env.spec().shape_meta.obs, views});
    RgbImage frame(512, 512);
    env.Render(&frame);
    for (const double shown : {-80.0, 0.0}) {
      const auto at = [&](std::size_t size) {
        const auto i =
            static_cast<std::size_t>((256.0 + shown) * static_cast<double>(size) / 512.0);
        return 3 * (i * size + i);
      };
      // red is low where the goal is: green on white
      EXPECT_EQ(image[at(96)] < 200, shown == offset);
      EXPECT_EQ(frame.pixels[at(512)] < 200, shown == offset);
    }
  }
}

TEST(PushtMotion, TheExpertSolvesTheTasksOfTheConfigs) {
  EXPECT_GE(SuccessRate(R"({"goal_motion": {"speed": 15}, "success_threshold": 0.9})", 0, 4), 0.75);
  EXPECT_GE(SuccessRate(R"({"wind": {"speed": 10}, "success_threshold": 0.9})", 0, 4), 0.75);
  EXPECT_EQ(SuccessRate(kFollow, 0, 50), 1.0);
}

TEST(PushtMotion, AnExpertThatIsLateLosesTheGoal) {
  EXPECT_LE(SuccessRate(kFollow, 4, 50), 0.1);
  // but not a goal that rests
  EXPECT_EQ(SuccessRate(R"({"goal_motion": {"speed": 0}, "follow": {}})", 4, 20), 1.0);
}

TEST(PushtMotion, FollowingMeansStayingOnTheGoalOnEnd) {
  PushtEnv env =
      Make(R"({"goal_motion": {"speed": 0}, "follow": {"radius": 20, "hold_steps": 3}})");
  env.Reset(0);
  std::vector<double> state = StateOf(env);
  const auto place = [&](double x) {
    state = StateOf(env);
    state[0] = kGoalPose.x + state[12] + x;
    state[1] = kGoalPose.y + state[13];
    state[2] = state[3] = 0.0;
    env.SetState(state);
    return env.Step(std::vector<float>{static_cast<float>(state[0]), static_cast<float>(state[1])});
  };
  EXPECT_EQ(place(19.0).metrics[1], 1.0);
  EXPECT_EQ(place(19.0).metrics[1], 2.0);
  EXPECT_EQ(place(21.0).metrics[1], 0.0);
  EXPECT_EQ(place(0.0).metrics[1], 1.0);
  EXPECT_FALSE(place(0.0).success);
  const StepResult last = place(0.0);
  EXPECT_TRUE(last.success && last.terminated);
  EXPECT_EQ(last.reward, 1.0);
}

TEST(PushtMotion, ParamsThatMissEachOtherAreRefused) {
  EXPECT_THAT(Refusal(R"({"follow": {}})"), HasSubstr("needs the param goal_motion"));
  EXPECT_THAT(Refusal(R"({"obs": ["goal"]})"), HasSubstr("no observation 'goal'"));
  EXPECT_THAT(Refusal(R"({"obs": ["wind"], "goal_motion": {}})"),
              HasSubstr("no observation 'wind'"));
}

}  // namespace
}  // namespace dp_bench::pusht
