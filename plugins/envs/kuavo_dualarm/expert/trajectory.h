// Turns a hand's goal into one joint command per control step: along a straight line of the joints
// or of the pinch point, with limits on speed and acceleration. The goal may move or change at any
// step. The command continues with its current speed, so a hand passes via points without stopping.
#pragma once

#include <span>

#include "controller.h"
#include "ik.h"
#include "kuavo_model.h"
#include "pose.h"

namespace dp_bench::kuavo_dualarm {

inline constexpr double kControlPeriod = 1.0 / kControlHz;  // [s]
inline constexpr double kMaxJointSpeed = 1.5;               // of every command [rad/s]
inline constexpr double kGripperRamp = 0.25;                // of the closure per control step

/// The goal of one arm.
struct ArmGoal {
  enum class Path { kToHome, kByJoints, kByLine };

  Path path = Path::kToHome;  // to the home posture; or to `pinch` along joints or a line
  Pose pinch = {};
  double closure = 0.0;  // of the gripper, 0 open .. 1 closed
};

/// The limits on an arm's motion.
struct MotionCaps {
  double joint_speed = 1.2;         // at most kMaxJointSpeed [rad/s]
  double joint_acceleration = 6.0;  // [rad/s^2]
  double line_speed = 0.25;         // of the pinch point on a line [m/s]
  double line_acceleration = 1.0;   // [m/s^2]
};

/// The commands of one arm.
class ArmTrajectory {
 public:
  /// `ik` must outlive it.
  ArmTrajectory(ArmIk& ik, Side side) : ik_(ik), side_(side) {}

  /// Starts at rest.
  void Start(const JointVector& joints, double closure, const MotionCaps& caps);

  /// Writes the command of the next control step, kSideDim numbers: joints [rad] and closure.
  /// Throws Error{kEnv} if no posture comes near the goal.
  void Advance(const ArmGoal& goal, std::span<float> action);

 private:
  JointVector NextOnJoints(const JointVector& goal) const;
  JointVector NextOnLine(const Pose& goal);
  JointVector Reach(const Pose& pinch);
  void MoveTowards(const JointVector& wanted);

  ArmIk& ik_;
  Side side_;
  MotionCaps caps_;
  JointVector joints_ = {};    // the latest command
  JointVector velocity_ = {};  // its velocity [rad/s]
  double closure_ = 0.0;
  JointVector posture_ = {};  // the latest solution of the inverse kinematics
};

}  // namespace dp_bench::kuavo_dualarm
