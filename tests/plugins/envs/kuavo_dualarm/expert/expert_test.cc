// The scripted experts in the env: they solve the tasks, and what they command can be done.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "dp_bench/random.h"
#include "expert/dual_arm_expert.h"
#include "kuavo_env.h"
#include "support/error_of.h"

namespace dp_bench::kuavo_dualarm {
namespace {

using Action = std::array<float, kActionDim>;

KuavoEnv Make(const std::string& task, const std::string& randomization = "{}") {
  return KuavoEnv(Config::FromJson(
      fmt::format(R"({{"task": "{}", "scene_dir": "{}/scenes", "randomization": {}}})", task,
                  DPB_SOURCE_DIR, randomization)));
}

struct Episode {
  bool success = false;
  std::vector<Action> actions;
};

/// One episode by the expert. `change` may modify the executed action, by step.
Episode Play(
    KuavoEnv& env, std::uint64_t seed,
    const std::function<void(int, Action&)>& change = [](int, Action&) {}) {
  env.Reset(seed);
  env.BeginExpert(seed);
  Episode episode;
  for (int step = 0; step < env.spec().max_steps && !episode.success; ++step) {
    Action action;
    env.Act(action);
    episode.actions.push_back(action);
    change(step, action);
    episode.success = env.Step(action).success;
  }
  return episode;
}

class DualArmExpertTest : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Tasks, DualArmExpertTest,
                         testing::Values("pick_place", "bimanual_lift", "weigh_relay",
                                         "conveyor_pick"),
                         [](const auto& task) { return std::string(task.param); });

TEST_P(DualArmExpertTest, SolvesItsTask) {
  constexpr int kEpisodes = 20;
  KuavoEnv env = Make(GetParam());
  int n_success = 0;
  std::size_t n_steps = 0;
  for (std::uint64_t seed = 0; seed < kEpisodes; ++seed) {
    const Episode episode = Play(env, seed);
    n_success += episode.success ? 1 : 0;
    n_steps += episode.actions.size();
  }
  EXPECT_GE(n_success, 19);
  // with time to spare before the step limit
  EXPECT_LT(static_cast<double>(n_steps) / kEpisodes, 0.7 * env.spec().max_steps);
}

TEST_P(DualArmExpertTest, KeepsToRangesSpeedAndTorqueOfEveryJoint) {
  KuavoEnv env = Make(GetParam());
  const mjModel& model = *env.model().model();
  for (std::uint64_t seed = 100; seed < 105; ++seed) {
    Action last = {};
    Play(env, seed, [&](int step, Action& action) {
      for (const Side side : kSides) {
        const ArmIds& arm = env.model().arm(side);
        for (std::size_t i = 0; i < kNumArmJoints; ++i) {
          const double* range = &model.jnt_range[2 * arm.joint[i]];
          const std::size_t index = Index(side) * kSideDim + i;
          const double command = action[index];
          const double speed = (command - last[index]) / kControlPeriod;
          const double angle = env.data().qpos[arm.qpos[i]];
          const double torque_limit = model.jnt_actfrcrange[2 * arm.joint[i] + 1];

          // commands are float32; a joint may exceed its stop slightly
          EXPECT_GE(command, range[0] - 1e-6);
          EXPECT_LE(command, range[1] + 1e-6);
          if (step > 0) {
            EXPECT_LE(std::abs(speed), kMaxJointSpeed + 1e-5);
          }
          EXPECT_GT(angle, range[0] - 2e-3);
          EXPECT_LT(angle, range[1] + 2e-3);
          EXPECT_LT(std::abs(env.data().qvel[arm.dof[i]]), 1.2 * kMaxJointSpeed);
          EXPECT_LT(std::abs(env.data().qfrc_actuator[arm.dof[i]]), 0.9 * torque_limit);
        }
        EXPECT_GE(action[Index(side) * kSideDim + kNumArmJoints], 0.0F);
        EXPECT_LE(action[Index(side) * kSideDim + kNumArmJoints], 1.0F);
      }
      last = action;
    });
  }
}

TEST_P(DualArmExpertTest, EqualSeedsGiveEqualActions) {
  KuavoEnv env = Make(GetParam());
  const Episode first = Play(env, 7);
  Play(env, 8);
  EXPECT_EQ(Play(env, 7).actions, first.actions);
}

TEST_P(DualArmExpertTest, VariesWithTheSeedFromTheSameStart) {
  KuavoEnv env = Make(GetParam());
  std::vector<Action> last_actions;
  for (const std::uint64_t seed : {1, 2}) {
    env.Reset(0);
    env.BeginExpert(seed);
    Action action;
    for (int step = 0; step < 10; ++step) {
      env.Act(action);
      env.Step(action);
    }
    last_actions.push_back(action);
  }
  EXPECT_NE(last_actions[0], last_actions[1]);
}

TEST_P(DualArmExpertTest, ToleratesNoiseOnTheExecutedActions) {
  KuavoEnv env = Make(GetParam());
  for (std::uint64_t seed = 200; seed < 205; ++seed) {
    RandomStream random(seed, StreamId::kEnvNoise);
    const Episode episode = Play(env, seed, [&](int, Action& action) {
      for (float& number : action) number += 0.015F * random.Normal();
    });
    EXPECT_TRUE(episode.success) << "seed " << seed;
  }
}

TEST_P(DualArmExpertTest, ToleratesOtherFrictionAndMass) {
  KuavoEnv env = Make(GetParam(), R"({"friction": 0.3, "mass": 0.3})");
  for (std::uint64_t seed = 300; seed < 305; ++seed) {
    EXPECT_TRUE(Play(env, seed).success) << "seed " << seed;
  }
}

TEST_P(DualArmExpertTest, GripsAgainWhatItsHandsLost) {
  const std::map<std::string, std::string> objects = {{"pick_place", "cube"},
                                                      {"bimanual_lift", "tray"},
                                                      {"weigh_relay", "parcel"},
                                                      {"conveyor_pick", "cube"}};
  const std::string& object = objects.at(GetParam());
  KuavoEnv env = Make(GetParam());
  int opened_at = -1;
  const Episode episode = Play(env, 11, [&](int step, Action& action) {
    // both hands open for a second after something was lifted by 3 cm
    const double height = env.data().xpos[3 * env.model().Body(object) + 2];
    if (opened_at < 0 && height > kTableTop + 0.05) opened_at = step;
    if (opened_at < 0 || step >= opened_at + 10) return;
    for (const Side side : kSides) action[Index(side) * kSideDim + kNumArmJoints] = 0.0F;
  });
  EXPECT_GE(opened_at, 0);
  EXPECT_TRUE(episode.success);
}

TEST_P(DualArmExpertTest, TakesOverAtAnyStepOfAnEpisode) {
  KuavoEnv env = Make(GetParam());
  const auto n_steps = static_cast<int>(Play(env, 21).actions.size());
  for (int takeover = 5; takeover < n_steps; takeover += 5) {
    env.Reset(21);
    env.BeginExpert(21);
    Action action;
    bool success = false;
    int step = 0;
    for (; step < env.spec().max_steps && !success; ++step) {
      // as a new expert, it knows nothing of the steps before
      if (step == takeover) env.BeginExpert(22);
      env.Act(action);
      success = env.Step(action).success;
    }
    EXPECT_TRUE(success) << "takeover at step " << takeover << " of " << n_steps;
    EXPECT_LT(step, n_steps + 40) << "takeover at step " << takeover << " of " << n_steps;
  }
}

/// The share of solved episodes of conveyor_pick if actions are executed `n_late` steps late.
double ConveyorRate(double speed, std::size_t n_late) {
  KuavoEnv env(Config::FromJson(fmt::format(
      R"({{"task": "conveyor_pick", "scene_dir": "{}/scenes", "conveyor": {{"speed": {}}}}})",
      DPB_SOURCE_DIR, speed)));
  constexpr int kEpisodes = 20;
  int n_success = 0;
  for (std::uint64_t seed = 0; seed < kEpisodes; ++seed) {
    std::deque<Action> actions;
    n_success += Play(env, seed,
                      [&](int, Action& action) {
                        actions.push_back(action);
                        if (actions.size() > n_late + 1) actions.pop_front();
                        action = actions.front();
                      }).success
                     ? 1
                     : 0;
  }
  return static_cast<double>(n_success) / kEpisodes;
}

TEST(DualArmExpert, MissesTheCubeOnTheBeltOnlyIfItIsLateAndTheBeltMoves) {
  EXPECT_GE(ConveyorRate(0.08, 0), 0.95);
  EXPECT_LE(ConveyorRate(0.08, 3), 0.2);  // 0.3 s
  EXPECT_GE(ConveyorRate(0.0, 3), 0.95);
}

TEST(DualArmExpert, WantsRoomForAWholeAction) {
  KuavoEnv env = Make("pick_place");
  env.Reset(1);
  env.BeginExpert(1);
  std::vector<float> action(7);
  const std::string message = MessageOf(ErrorCode::kShape, [&] { env.Act(action); });
  EXPECT_THAT(message, testing::HasSubstr("16 numbers, found 7"));
}

TEST(DualArmExpert, RefusesToActBeforeItBegan) {
  KuavoEnv env = Make("pick_place");
  env.Reset(1);
  Action action;
  const std::string message = MessageOf(ErrorCode::kEnv, [&] { env.Act(action); });
  EXPECT_THAT(message, testing::HasSubstr("call BeginExpert after Reset"));
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
