// Inverse kinematics of an arm: damped least squares on the pose of the pinch frame (Buss 2004,
// "Introduction to inverse kinematics", sec. 6), with the free seventh joint drawn to the middle of
// the joint ranges.
#pragma once

#include <vector>

#include "kuavo_model.h"
#include "pose.h"

namespace dp_bench::kuavo_dualarm {

struct IkSolution {
  JointVector joints = {};      // within the joint ranges less a small margin [rad]
  double position_error = 0.0;  // what remains [m]
  double rotation_error = 0.0;  // [rad]
  bool converged = false;       // both errors vanish and the joints are at rest
};

/// Solves for the joints of either arm. It has a state of its own, so that asking changes nothing
/// in the env. Where it converges the answer is a function of the target: the posture nearest to
/// the middle of the joint ranges, not the one nearest to where the search began.
class ArmIk {
 public:
  /// `model` must outlive the solver.
  explicit ArmIk(const KuavoModel& model);

  const KuavoModel& model() const { return model_; }

  /// Forward kinematics.
  Pose PinchPose(Side side, const JointVector& joints);

  /// Searches from `seed`, then from other postures if that does not converge, and returns the
  /// nearest that it found: out of reach is a residual, not an error.
  IkSolution Solve(Side side, const Pose& target, const JointVector& seed);

 private:
  struct Limits {
    JointVector low;
    JointVector high;
    JointVector middle;
  };

  void SetJoints(Side side, const JointVector& joints);
  IkSolution Descend(Side side, const Pose& target, const JointVector& seed);
  void ReadJacobian(Side side);
  JointVector FindStep(Side side, const std::array<double, 6>& error,
                       const JointVector& joints) const;

  const KuavoModel& model_;
  MjDataPtr data_;
  std::array<Limits, kNumSides> limits_;
  std::vector<double> all_position_rows_;  // [3, nv]
  std::vector<double> all_rotation_rows_;
  std::array<double, 6 * kNumArmJoints> jacobian_ = {};  // of position and weighted rotation
};

}  // namespace dp_bench::kuavo_dualarm
