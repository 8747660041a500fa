// Inverse kinematics of an arm: damped least squares on the pose of the pinch frame (Buss 2004,
// "Introduction to inverse kinematics", sec. 6). The redundant seventh joint is pulled to the
// middle of the joint ranges.
#pragma once

#include <vector>

#include "kuavo_model.h"
#include "pose.h"

namespace dp_bench::kuavo_dualarm {

struct IkSolution {
  JointVector joints = {};      // within the joint ranges minus a small margin [rad]
  double position_error = 0.0;  // remaining error [m]
  double rotation_error = 0.0;  // [rad]
  bool converged = false;       // both errors are small and the joints no longer move
};

/// Solves for the joints of either arm. It has separate simulation data, so solving does not change
/// the env. If it converges, the solution depends only on the target: the posture nearest to the
/// middle of the joint ranges, not the one nearest to the start of the search.
class ArmIk {
 public:
  /// `model` must outlive the solver.
  explicit ArmIk(const KuavoModel& model);

  const KuavoModel& model() const { return model_; }

  /// Forward kinematics.
  Pose PinchPose(Side side, const JointVector& joints);

  /// Searches from `seed`, then from other postures if that does not converge. Returns the best
  /// posture found. A target out of reach gives a residual, not an error.
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
  mujoco::DataPtr data_;
  std::array<Limits, kNumSides> limits_;
  std::vector<double> all_position_rows_;  // [3, nv]
  std::vector<double> all_rotation_rows_;
  std::array<double, 6 * kNumArmJoints> jacobian_ = {};  // of position and weighted rotation
};

}  // namespace dp_bench::kuavo_dualarm
