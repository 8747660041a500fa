// Poses of the pinch frame.
#include "pose.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::kuavo_dualarm {

Pose PinchPose(const KuavoModel& model, const mjData& data, Side side) {
  const int site = model.arm(side).pinch_site;
  Pose pose;
  std::copy_n(&data.site_xpos[3 * site], 3, pose.position.begin());
  std::copy_n(&data.site_xmat[9 * site], 9, pose.rotation.begin());
  return pose;
}

Matrix3 GraspRotation(Side side, double yaw, double pitch) {
  // z is opposite to the approach; x is lateral: to the left for the right hand, to the right for
  // the left
  const Vector3 approach = ApproachDirection(yaw, pitch);
  const Vector3 z = {-approach[0], -approach[1], -approach[2]};
  const double sign = side == Side::kRight ? 1.0 : -1.0;
  const Vector3 x = {-sign * std::sin(yaw), sign * std::cos(yaw), 0.0};
  const Vector3 y = {z[1] * x[2] - z[2] * x[1], z[2] * x[0] - z[0] * x[2],
                     z[0] * x[1] - z[1] * x[0]};
  return {x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2]};
}

Vector3 ApproachDirection(double yaw, double pitch) {
  return {std::cos(yaw) * std::cos(pitch), std::sin(yaw) * std::cos(pitch), -std::sin(pitch)};
}

Pose Shifted(const Pose& from, const Vector3& direction, double scale) {
  Pose shifted = from;
  for (std::size_t i = 0; i < 3; ++i) shifted.position[i] += scale * direction[i];
  return shifted;
}

double Distance(const Vector3& a, const Vector3& b) {
  return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
}

double LargestMagnitude(const JointVector& v) {
  double largest = 0.0;
  for (const double x : v) largest = std::max(largest, std::abs(x));
  return largest;
}

Vector3 RotationBetween(const Matrix3& from, const Matrix3& to) {
  std::array<double, 4> quat_from;
  std::array<double, 4> quat_to;
  mju_mat2Quat(quat_from.data(), from.data());
  mju_mat2Quat(quat_to.data(), to.data());

  // MuJoCo gives the rotation in the frame of `from`
  Vector3 local;
  mju_subQuat(local.data(), quat_to.data(), quat_from.data());
  Vector3 world;
  mju_mulMatVec3(world.data(), from.data(), local.data());
  return world;
}

bool IsNear(const Pose& hand, const Pose& goal, double distance, double angle) {
  const Vector3 turn = RotationBetween(hand.rotation, goal.rotation);
  return Distance(hand.position, goal.position) <= distance &&
         std::hypot(turn[0], turn[1], turn[2]) <= angle;
}

double WrapNear(double angle, double reference, double period) {
  return reference + std::remainder(angle - reference, period);
}

}  // namespace dp_bench::kuavo_dualarm
