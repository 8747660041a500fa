// From actions to motion, and the handling of a diverging simulation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "dp_bench/error.h"
#include "stage.h"
#include "support/error_of.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr std::size_t kRightElbow = kSideDim + 3;
constexpr std::size_t kRightGripper = kSideDim + kNumArmJoints;

double ServoTarget(const KuavoEnv& env, std::size_t i) { return env.data().ctrl[i]; }

TEST(KuavoControl, BoundsAreTheJointRangesAndOpenToClosed) {
  const KuavoEnv env = MakeEnv();
  const EnvSpec& spec = env.spec();
  ASSERT_EQ(spec.action_low.size(), kActionDim);
  EXPECT_FLOAT_EQ(spec.action_low[0], -3.14159F);
  EXPECT_FLOAT_EQ(spec.action_high[0], 1.57080F);
  EXPECT_FLOAT_EQ(spec.action_low[kSideDim + 1], -2.09440F);
  EXPECT_FLOAT_EQ(spec.action_high[kSideDim + 1], 0.34907F);
  for (const std::size_t gripper : {kNumArmJoints, kRightGripper}) {
    EXPECT_EQ(spec.action_low[gripper], 0.0F);
    EXPECT_EQ(spec.action_high[gripper], 1.0F);
  }
  EXPECT_EQ(spec.control_hz, 10.0);
}

TEST(KuavoControl, StayingHomeMovesNothing) {
  KuavoEnv env = MakeEnv();
  env.Reset(3);
  StayHome(env, 20);
  EXPECT_NEAR(env.data().time, 2.0, 1e-9) << "20 steps of 0.1 s";
  for (const Side side : kSides) {
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      EXPECT_NEAR(env.data().qpos[env.model().arm(side).qpos[i]], kHome[Index(side)][i], 1e-6);
    }
    EXPECT_NEAR(env.model().GripperClosure(env.data(), side), 0.0, 1e-4);
  }
  EXPECT_NEAR(env.data().qpos[env.model().head().qpos[1]], 0.40, 1e-9);
}

TEST(KuavoControl, JointsFollowTheirTargets) {
  KuavoEnv env = MakeEnv();
  env.Reset(0);
  std::vector<float> action = HomeAction();
  action[kRightElbow] -= 0.25F;
  action[kRightGripper] = 0.5F;
  for (int step = 0; step < 20; ++step) env.Step(action);
  const int elbow = env.model().arm(Side::kRight).qpos[3];
  EXPECT_NEAR(env.data().qpos[elbow], static_cast<double>(action[kRightElbow]), 1e-3);
  EXPECT_NEAR(env.model().GripperClosure(env.data(), Side::kRight), 0.5, 1e-3);
  EXPECT_NEAR(env.model().GripperClosure(env.data(), Side::kLeft), 0.0, 1e-3);
}

TEST(KuavoControl, TargetsAreCutToTheJointRanges) {
  KuavoEnv env = MakeEnv();
  env.Reset(0);
  std::vector<float> action = HomeAction();
  action[kRightElbow] = 5.0F;
  action[kRightGripper] = -3.0F;
  for (int step = 0; step < 5; ++step) env.Step(action);
  EXPECT_NEAR(ServoTarget(env, kRightElbow), 0.0, 1e-12);
  EXPECT_NEAR(ServoTarget(env, kRightGripper), 0.0, 1e-12);
}

TEST(KuavoControl, TargetsMoveAtMostTenRadiansPerSecond) {
  KuavoEnv env = MakeEnv();
  env.Reset(0);
  std::vector<float> action = HomeAction();
  action[kRightElbow] += 2.0F;
  env.Step(action);
  EXPECT_NEAR(ServoTarget(env, kRightElbow), kHome[1][3] + 1.0, 1e-6);
  env.Step(action);
  EXPECT_NEAR(ServoTarget(env, kRightElbow), kHome[1][3] + 2.0, 1e-6);
}

TEST(KuavoControl, TargetsMoveLinearlyOverAControlStep) {
  const KuavoEnv env = MakeEnv();
  const mujoco::DataPtr data = env.model().MakeData();
  Controller controller(env.model());
  controller.Hold({});
  Command command = {};
  command[0] = 0.8;
  command[kRightGripper] = 1.0;
  controller.SetCommand(command);
  controller.WriteTargets(24, 0.0, *data);
  EXPECT_NEAR(data->ctrl[0], 0.4, 1e-12);
  EXPECT_NEAR(data->ctrl[kRightGripper], 0.5 * kFingerTravel, 1e-12);
  controller.WriteTargets(49, 0.0, *data);
  EXPECT_NEAR(data->ctrl[0], 0.8, 1e-12);
}

TEST(KuavoControl, ADelayShiftsTheTargetsInTime) {
  const KuavoEnv env = MakeEnv();
  const mujoco::DataPtr data = env.model().MakeData();
  Controller controller(env.model());
  controller.Hold({});
  Command command = {};
  for (const double target : {0.4, 0.8}) {
    command[0] = target;
    controller.SetCommand(command);
  }
  // 0.03 s late: halfway through the second step it is where it was at 0.02 s
  controller.WriteTargets(24, 0.03, *data);
  EXPECT_NEAR(data->ctrl[0], 0.4 + 0.4 * 0.2, 1e-12);
  // at its start it is still moving to the first command
  controller.WriteTargets(4, 0.03, *data);
  EXPECT_NEAR(data->ctrl[0], 0.4 * 0.8, 1e-12);
}

TEST(KuavoControl, ADivergedSimulationIsReportedWithItsSeed) {
  KuavoEnv env = MakeEnv();
  env.Reset(77);
  env.Step(HomeAction());
  std::vector<double> state = StateOf(env);
  state[QvelInState(env, env.model().arm(Side::kLeft).dof[2])] = 1e12;
  env.SetState(state);
  EXPECT_THAT(MessageOf(ErrorCode::kNumeric, [&] { env.Step(HomeAction()); }),
              testing::AllOf(testing::HasSubstr("seed 77"), testing::HasSubstr("velocity")));
  EXPECT_EQ(CodeOf([&] { env.Step(HomeAction()); }), ErrorCode::kEnv) << "until the next Reset";
  env.Reset(77);
  EXPECT_NO_THROW(env.Step(HomeAction()));
}

TEST(KuavoControl, AStateWithAnImpossibleSeedIsRefused) {
  KuavoEnv env = MakeEnv();
  env.Reset(1);
  const std::vector<double> state = StateOf(env);
  for (const double bad : {-1.0, 0.5, 1e11}) {
    std::vector<double> wrong = state;
    wrong.back() = bad;
    EXPECT_EQ(CodeOf([&] { env.SetState(wrong); }), ErrorCode::kEnv) << bad;
  }
}

TEST(KuavoControl, AStateRemembersASeedOf64Bits) {
  KuavoEnv env = MakeEnv(R"({"randomization": {"action_noise": 0.02}})");
  env.Reset(std::numeric_limits<std::uint64_t>::max());
  const std::vector<double> state = StateOf(env);
  StayHome(env, 5);
  const double wanted = env.data().qpos[env.model().arm(Side::kLeft).qpos[0]];
  env.SetState(state);
  StayHome(env, 5);
  EXPECT_EQ(env.data().qpos[env.model().arm(Side::kLeft).qpos[0]], wanted);
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
