// The expert as used by collect.
#include "pusht_expert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "dp_bench/error.h"
#include "make_env.h"
#include "support/env_state.h"

namespace dp_bench::pusht {
namespace {

struct Episode {
  std::vector<std::array<float, 2>> actions;
  double score = 0.0;
  bool success = false;
};

/// Adds `disturbance` [px] to every fifth action that the env gets.
Episode Play(PushtEnv& env, std::uint64_t seed, std::size_t max_steps, float disturbance = 0.0F) {
  Episode episode;
  env.Reset(seed);
  env.BeginExpert(seed);
  while (episode.actions.size() < max_steps && !episode.success) {
    std::array<float, 2> action;
    env.Act(action);
    episode.actions.push_back(action);
    if (episode.actions.size() % 5 == 0) action[0] += disturbance;
    const StepResult result = env.Step(action);
    episode.score = std::max(episode.score, result.reward);
    episode.success = result.success;
  }
  return episode;
}

TEST(PushtExpert, SolvesUnseenStartsWithinTheTimeLimit) {
  PushtEnv env = Make();
  constexpr std::uint64_t kEpisodes = 5;
  double score = 0.0;
  for (std::uint64_t seed = 0; seed < kEpisodes; ++seed) {
    score += Play(env, 100000 + seed, 300).score / kEpisodes;
  }
  EXPECT_GE(score, 0.95);
}

TEST(PushtExpert, EqualSeedsGiveEqualActionsInAnyInstance) {
  PushtEnv first = Make();
  PushtEnv second = Make();
  Play(second, 9, 10);
  EXPECT_EQ(Play(first, 100007, 60).actions, Play(second, 100007, 60).actions);
}

TEST(PushtExpert, ActionsStayWithinTheLimitsAndDoNotJump) {
  PushtEnv env = Make();
  const Episode episode = Play(env, 100009, 300);
  std::array<float, 2> last = episode.actions[0];
  for (const std::array<float, 2>& action : episode.actions) {
    EXPECT_THAT(action, testing::Each(testing::AllOf(testing::Ge(0.0F), testing::Le(512.0F))));
    EXPECT_LE(std::hypot(action[0] - last[0], action[1] - last[1]), kFreeSpeed + 0.01);
    last = action;
  }
}

TEST(PushtExpert, ActLeavesTheEnvAlone) {
  PushtEnv env = Make();
  env.Reset(3);
  env.BeginExpert(3);
  const std::vector<double> before = StateOf(env);
  std::array<float, 2> action;
  env.Act(action);
  EXPECT_EQ(StateOf(env), before);
}

TEST(PushtExpert, ASlightlyDisturbedPlanIsCarriedOn) {
  PushtEnv env = Make();
  EXPECT_TRUE(Play(env, 100004, 300, 4.0F).success);
}

TEST(PushtExpert, PlansAnewWhereTheWorldLeavesThePlan) {
  PushtEnv env = Make();
  // the block is moved elsewhere in mid-push
  Play(env, 100004, 20);
  std::vector<double> state = StateOf(env);
  state[4] = 150.0;
  state[5] = 150.0;
  env.SetState(state);
  double score = 0.0;
  for (int step = 0; step < 200; ++step) {
    std::array<float, 2> action;
    env.Act(action);
    const StepResult result = env.Step(action);
    score = std::max(score, result.reward);
    if (result.terminated) break;
  }
  EXPECT_GE(score, 0.95);
}

TEST(PushtExpert, RefusesAWrongSizeAndAnEnvThatHasNotStarted) {
  PushtEnv env = Make();
  std::array<float, 2> action;
  EXPECT_THROW(env.BeginExpert(0), Error);
  EXPECT_THROW(env.Act(action), Error);
  env.Reset(0);
  env.BeginExpert(0);
  std::array<float, 3> wrong;
  EXPECT_THROW(env.Act(wrong), Error);
}

}  // namespace
}  // namespace dp_bench::pusht
