// The actual or desired pose of a hand: the pinch frame of a gripper in the world.
#pragma once

#include <array>

#include "kuavo_model.h"

namespace dp_bench::kuavo_dualarm {

using Vector3 = std::array<double, 3>;
using Matrix3 = std::array<double, 9>;  // row major
using JointVector = std::array<double, kNumArmJoints>;

/// The pinch frame of a hand in the world [m]: it approaches along -z and closes along x.
struct Pose {
  Vector3 position = {};
  Matrix3 rotation = {1, 0, 0, 0, 1, 0, 0, 0, 1};
};

Pose PinchPose(const KuavoModel& model, const mjData& data, Side side);

/// The pinch frame of a hand that approaches along `yaw` (0 straight ahead, positive to the left)
/// and `pitch` below the horizontal, its closing axis horizontal [rad]. The two hands mirror each
/// other.
Matrix3 GraspRotation(Side side, double yaw, double pitch);

/// The direction in which such a hand moves towards its grasp.
Vector3 ApproachDirection(double yaw, double pitch);

/// `from` moved by `scale` times `direction`.
Pose Shifted(const Pose& from, const Vector3& direction, double scale);

double Distance(const Vector3& a, const Vector3& b);

/// The largest absolute value.
double LargestMagnitude(const JointVector& v);

/// The rotation that turns `from` into `to`, as axis times angle in the world [rad].
Vector3 RotationBetween(const Matrix3& from, const Matrix3& to);

/// Whether a hand is within `distance` [m] and `angle` [rad] of a goal.
bool IsNear(const Pose& hand, const Pose& goal, double distance, double angle);

/// An angle moved by multiples of `period` to lie within half a period of `reference`.
double WrapNear(double angle, double reference, double period);

}  // namespace dp_bench::kuavo_dualarm
