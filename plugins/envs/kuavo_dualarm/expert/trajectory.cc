// The straight paths and their speeds.
#include "trajectory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dp_bench/error.h"

namespace dp_bench::kuavo_dualarm {
namespace {

// a goal is out of reach if its best posture misses it by more than this
constexpr double kMaxPositionError = 0.03;            // [m]
constexpr double kMaxRotationError = 12.0 * kDegree;  // [rad]

/// The distance on a line that corresponds to a turn of 1 rad [m].
constexpr double kTurnLength = 0.3;

/// The largest step from which it is still possible to stop within `distance`, slowing down by at
/// most `acceleration` per control step: d = v dt (1 + ... + n) falls in steps of a dt.
double BrakingStep(double distance, double speed_cap, double acceleration) {
  const double unit = acceleration * kControlPeriod * kControlPeriod;
  const double step = unit * (std::sqrt(0.25 + 2.0 * distance / unit) - 0.5);
  return std::min({step, speed_cap * kControlPeriod, distance});
}

}  // namespace

void ArmTrajectory::Start(const JointVector& joints, double closure, const MotionCaps& caps) {
  caps_ = caps;
  joints_ = joints;
  velocity_ = {};
  closure_ = closure;
  posture_ = joints;
}

void ArmTrajectory::Advance(const ArmGoal& goal, std::span<float> action) {
  switch (goal.path) {
    case ArmGoal::Path::kToHome:
      MoveTowards(NextOnJoints(kHome[Index(side_)]));
      break;
    case ArmGoal::Path::kByJoints:
      MoveTowards(NextOnJoints(Reach(goal.pinch)));
      break;
    case ArmGoal::Path::kByLine:
      MoveTowards(NextOnLine(goal.pinch));
      break;
  }
  closure_ += std::clamp(goal.closure - closure_, -kGripperRamp, kGripperRamp);

  for (std::size_t i = 0; i < kNumArmJoints; ++i) action[i] = static_cast<float>(joints_[i]);
  action[kNumArmJoints] = static_cast<float>(closure_);
}

JointVector ArmTrajectory::NextOnJoints(const JointVector& goal) const {
  JointVector way;
  for (std::size_t i = 0; i < kNumArmJoints; ++i) way[i] = goal[i] - joints_[i];
  const double length = LargestMagnitude(way);
  if (length == 0.0) return goal;

  const double step = BrakingStep(length, caps_.joint_speed, caps_.joint_acceleration);
  JointVector next;
  for (std::size_t i = 0; i < kNumArmJoints; ++i) next[i] = joints_[i] + way[i] * step / length;
  return next;
}

JointVector ArmTrajectory::NextOnLine(const Pose& goal) {
  const Pose now = ik_.PinchPose(side_, joints_);
  const Vector3 turn = RotationBetween(now.rotation, goal.rotation);
  const double angle = std::hypot(turn[0], turn[1], turn[2]);
  const double length = std::max(Distance(now.position, goal.position), kTurnLength * angle);
  const double step = BrakingStep(length, caps_.line_speed, caps_.line_acceleration);
  if (step >= length) return Reach(goal);

  // the point of the line that is one step ahead
  Pose next = now;
  const double part = step / length;
  for (std::size_t i = 0; i < 3; ++i) {
    next.position[i] += part * (goal.position[i] - now.position[i]);
  }
  if (angle > 0.0) {
    const Vector3 axis = {turn[0] / angle, turn[1] / angle, turn[2] / angle};
    std::array<double, 4> quat;
    mju_axisAngle2Quat(quat.data(), axis.data(), part * angle);
    Matrix3 rotation;
    mju_quat2Mat(rotation.data(), quat.data());
    mju_mulMatMat(next.rotation.data(), rotation.data(), now.rotation.data(), 3, 3, 3);
  }
  return Reach(next);
}

JointVector ArmTrajectory::Reach(const Pose& pinch) {
  const IkSolution solution = ik_.Solve(side_, pinch, posture_);
  if (solution.position_error > kMaxPositionError || solution.rotation_error > kMaxRotationError) {
    throw Error(ErrorCode::kEnv,
                fmt::format("expected the {} hand at ({:.3f}, {:.3f}, {:.3f}), the nearest posture "
                            "found misses it by {:.0f} mm and {:.0f} degrees",
                            side_ == Side::kLeft ? "left" : "right", pinch.position[0],
                            pinch.position[1], pinch.position[2], 1000.0 * solution.position_error,
                            solution.rotation_error / kDegree));
  }
  posture_ = solution.joints;
  return solution.joints;
}

void ArmTrajectory::MoveTowards(const JointVector& wanted) {
  // change the velocity in its direction, by no more than the acceleration limit
  JointVector change;
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    change[i] = (wanted[i] - joints_[i]) / kControlPeriod - velocity_[i];
  }
  const double allowed = caps_.joint_acceleration * kControlPeriod;
  const double largest = LargestMagnitude(change);
  const double change_scale = largest > allowed ? allowed / largest : 1.0;
  for (std::size_t i = 0; i < kNumArmJoints; ++i) velocity_[i] += change_scale * change[i];

  // a line of the pinch point may need more than the joints' speed limit
  const double speed = LargestMagnitude(velocity_);
  const double speed_scale = speed > kMaxJointSpeed ? kMaxJointSpeed / speed : 1.0;
  const KuavoModel& model = ik_.model();
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    // rounding a corner must stay within the joint ranges
    const double* range = &model.model()->jnt_range[2 * model.arm(side_).joint[i]];
    const double next = joints_[i] + speed_scale * velocity_[i] * kControlPeriod;
    const double allowed_next = std::clamp(next, range[0], range[1]);
    velocity_[i] = (allowed_next - joints_[i]) / kControlPeriod;
    joints_[i] = allowed_next;
  }
}

}  // namespace dp_bench::kuavo_dualarm
