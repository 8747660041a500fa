// Inverse kinematics of the arms.
#include "expert/ik.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/random_streams.h"

namespace dp_bench::kuavo_dualarm {
namespace {

KuavoModel Model() {
  return KuavoModel(mujoco::FindScene("kuavo/pick_place.xml", DPB_SOURCE_DIR "/scenes"));
}

/// A posture in the middle 60 % of the joint ranges.
JointVector DrawPosture(const KuavoModel& model, Side side, RandomStream& random) {
  JointVector joints;
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    const double* range = &model.model()->jnt_range[2 * model.arm(side).joint[i]];
    joints[i] = range[0] + (0.2 + 0.6 * random.UniformDouble()) * (range[1] - range[0]);
  }
  return joints;
}

TEST(ArmIk, KnowsWhereTheHandsAreAtHome) {
  const KuavoModel model = Model();
  ArmIk ik(model);
  for (const Side side : kSides) {
    const Pose pinch = ik.PinchPose(side, kHome[Index(side)]);
    EXPECT_NEAR(pinch.position[0], 0.238, 1e-3);
    EXPECT_NEAR(pinch.position[1], side == Side::kLeft ? 0.293 : -0.293, 1e-3);
    EXPECT_NEAR(pinch.position[2], 0.930, 1e-3);
    const Matrix3 wanted = GraspRotation(side, 0.0, 30.0 * kDegree);
    for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(pinch.rotation[i], wanted[i], 1e-9);
  }
}

TEST(ArmIk, FindsThePosesThatPosturesReach) {
  const KuavoModel model = Model();
  ArmIk ik(model);
  RandomStream random(1, core::kInitStream);
  int solved = 0;
  for (int i = 0; i < 100; ++i) {
    const Side side = i % 2 == 0 ? Side::kLeft : Side::kRight;
    const Pose target = ik.PinchPose(side, DrawPosture(model, side, random));
    const IkSolution solution = ik.Solve(side, target, kHome[Index(side)]);
    if (!solution.converged) continue;
    ++solved;
    EXPECT_TRUE(IsNear(ik.PinchPose(side, solution.joints), target, 1e-3, 5e-3));
  }
  EXPECT_GE(solved, 90);
}

TEST(ArmIk, AnswersByTheTargetAndNotByTheSeed) {
  const KuavoModel model = Model();
  ArmIk ik(model);
  RandomStream random(2, core::kInitStream);
  for (int i = 0; i < 20; ++i) {
    const Pose target = {.position = {0.28 + 0.1 * random.UniformDouble(),
                                      -0.35 + 0.15 * random.UniformDouble(), 0.8},
                         .rotation = GraspRotation(Side::kRight, 20 * kDegree, 45 * kDegree)};
    const IkSolution one = ik.Solve(Side::kRight, target, kHome[Index(Side::kRight)]);
    const IkSolution other =
        ik.Solve(Side::kRight, target, DrawPosture(model, Side::kRight, random));
    ASSERT_TRUE(one.converged);
    ASSERT_TRUE(other.converged);
    for (std::size_t j = 0; j < kNumArmJoints; ++j) {
      EXPECT_NEAR(one.joints[j], other.joints[j], 0.02);
    }
  }
}

TEST(ArmIk, StaysInsideTheJointRangesAndReportsWhatItMisses) {
  const KuavoModel model = Model();
  ArmIk ik(model);
  for (const Side side : kSides) {
    const Pose target = {.position = {2.0, 0.0, 1.0}, .rotation = GraspRotation(side, 0.0, 0.0)};
    const IkSolution solution = ik.Solve(side, target, kHome[Index(side)]);
    EXPECT_FALSE(solution.converged);
    EXPECT_GT(solution.position_error, 1.0);
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      const double* range = &model.model()->jnt_range[2 * model.arm(side).joint[i]];
      EXPECT_GT(solution.joints[i], range[0]);
      EXPECT_LT(solution.joints[i], range[1]);
    }
  }
}

TEST(Pose, TheHandsMirrorEachOther) {
  // mirroring in y negates the second row, and turns a closing axis around
  const Matrix3 left = GraspRotation(Side::kLeft, 0.3, 0.7);
  const Matrix3 right = GraspRotation(Side::kRight, -0.3, 0.7);
  const Matrix3 signs = {1, -1, 1, -1, 1, -1, 1, -1, 1};
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(left[i], signs[i] * right[i], 1e-12);
}

TEST(Pose, RotationBetweenIsAxisTimesAngleInTheWorld) {
  const Matrix3 from = GraspRotation(Side::kRight, 0.2, 0.5);
  const Matrix3 to = GraspRotation(Side::kRight, 0.5, 0.5);
  const Vector3 turn = RotationBetween(from, to);
  EXPECT_NEAR(turn[0], 0.0, 1e-12);
  EXPECT_NEAR(turn[1], 0.0, 1e-12);
  EXPECT_NEAR(turn[2], 0.3, 1e-12);
}

TEST(Pose, WrapsAnAngleToItsNearestEquivalent) {
  EXPECT_NEAR(WrapNear(100 * kDegree, 0.0, 90 * kDegree), 10 * kDegree, 1e-12);
  EXPECT_NEAR(WrapNear(-50 * kDegree, 20 * kDegree, 90 * kDegree), 40 * kDegree, 1e-12);
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
