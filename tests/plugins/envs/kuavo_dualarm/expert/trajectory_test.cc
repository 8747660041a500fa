// Commands of one arm, without physics.
#include "expert/trajectory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "support/error_of.h"

namespace dp_bench::kuavo_dualarm {
namespace {

using SideAction = std::array<float, kSideDim>;

class ArmTrajectoryTest : public testing::Test {
 protected:
  ArmTrajectoryTest() { arm_.Start(kHome[Index(kSide)], 0.0, MotionCaps{}); }

  static Pose Over(double x, double y, double z) {
    return {.position = {x, y, z}, .rotation = GraspRotation(kSide, 0.2, 45 * kDegree)};
  }

  SideAction Advance(const ArmGoal& goal) {
    SideAction action;
    arm_.Advance(goal, action);
    return action;
  }

  Pose PinchAt(const SideAction& action) {
    JointVector joints;
    std::copy_n(action.begin(), kNumArmJoints, joints.begin());
    return ik_.PinchPose(kSide, joints);
  }

  static double SpeedBetween(const SideAction& a, const SideAction& b) {
    double speed = 0.0;
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      speed = std::max(speed, std::abs(static_cast<double>(b[i] - a[i])) / kControlPeriod);
    }
    return speed;
  }

  static constexpr Side kSide = Side::kRight;
  KuavoModel model_{mujoco::FindScene("kuavo/pick_place.xml", DPB_SOURCE_DIR "/scenes")};
  ArmIk ik_{model_};
  ArmTrajectory arm_{ik_, kSide};
};

TEST_F(ArmTrajectoryTest, ArrivesAndComesToRest) {
  const Pose goal = Over(0.34, -0.25, 0.85);
  SideAction action = {};
  for (int i = 0; i < 25; ++i) action = Advance({ArmGoal::Path::kByJoints, goal});
  EXPECT_TRUE(IsNear(PinchAt(action), goal, 1e-3, 5e-3));
  const SideAction next = Advance({ArmGoal::Path::kByJoints, goal});
  EXPECT_LT(SpeedBetween(action, next), 1e-3);
}

TEST_F(ArmTrajectoryTest, KeepsToTheCapsOnSpeedAndAcceleration) {
  SideAction last = Advance({});
  double last_speed = 0.0;
  for (int i = 0; i < 60; ++i) {
    // goals that change abruptly
    const double y = i / 7 % 2 == 0 ? -0.16 : -0.38;
    const auto path = i / 10 % 2 == 0 ? ArmGoal::Path::kByJoints : ArmGoal::Path::kByLine;
    const SideAction action = Advance({path, Over(0.34, y, 0.82)});
    const double speed = SpeedBetween(last, action);
    EXPECT_LE(speed, kMaxJointSpeed + 1e-5);
    EXPECT_LE(std::abs(speed - last_speed),
              MotionCaps{}.joint_acceleration * kControlPeriod + 1e-5);
    last = action;
    last_speed = speed;
  }
}

TEST_F(ArmTrajectoryTest, ALineIsStraightForThePinchPoint) {
  const Pose above = Over(0.34, -0.25, 0.90);
  const Pose below = Over(0.34, -0.25, 0.78);
  for (int i = 0; i < 25; ++i) Advance({ArmGoal::Path::kByJoints, above});
  for (int i = 0; i < 15; ++i) {
    const Pose pinch = PinchAt(Advance({ArmGoal::Path::kByLine, below}));
    EXPECT_NEAR(pinch.position[0], 0.34, 2e-3);
    EXPECT_NEAR(pinch.position[1], -0.25, 2e-3);
    EXPECT_TRUE(IsNear(pinch, below, 0.13, 0.02));
  }
}

TEST_F(ArmTrajectoryTest, RampsTheGripper) {
  EXPECT_FLOAT_EQ(Advance({.closure = 0.7}).back(), 0.25F);
  EXPECT_FLOAT_EQ(Advance({.closure = 0.7}).back(), 0.50F);
  EXPECT_FLOAT_EQ(Advance({.closure = 0.7}).back(), 0.70F);
  EXPECT_FLOAT_EQ(Advance({.closure = 0.0}).back(), 0.45F);
}

TEST_F(ArmTrajectoryTest, ReturnsToTheHomePosture) {
  for (int i = 0; i < 10; ++i) Advance({ArmGoal::Path::kByJoints, Over(0.34, -0.25, 0.85)});
  SideAction action = {};
  for (int i = 0; i < 25; ++i) action = Advance({});
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    EXPECT_NEAR(action[i], kHome[Index(kSide)][i], 1e-4);
  }
}

TEST_F(ArmTrajectoryTest, SaysWhatIsOutOfReach) {
  const std::string message = MessageOf(ErrorCode::kEnv, [&] {
    Advance({ArmGoal::Path::kByJoints, Over(0.9, -0.25, 0.85)});
  });
  EXPECT_THAT(message, testing::HasSubstr("expected the right hand at (0.900, -0.250, 0.850)"));
  EXPECT_THAT(message, testing::HasSubstr("mm"));
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
