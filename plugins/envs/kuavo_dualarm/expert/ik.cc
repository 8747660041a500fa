// Damped least squares with an active set: joints at a limit are removed from the step, so that the
// others compensate. Clamping the step at the limits instead gets stuck next to them.
#include "ik.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr int kMaxIterations = 60;
constexpr double kDamping = 1e-5;        // lambda^2; a larger value lets the pull disturb the pose
constexpr double kRotationWeight = 0.3;  // [m/rad]
constexpr double kPull = 0.3;            // towards the middle, per iteration
constexpr double kMaxStep = 0.3;         // [rad]
constexpr double kLimitMargin = 0.02;    // [rad]

// convergence criteria
constexpr double kPositionTolerance = 2e-4;  // [m]
constexpr double kRotationTolerance = 2e-3;  // [rad]
constexpr double kStepTolerance = 2e-3;      // [rad]

using Matrix6 = std::array<double, 36>;
using Vector6 = std::array<double, 6>;

/// The error of a solution, in metres.
double Residual(const IkSolution& solution) {
  return solution.position_error + kRotationWeight * solution.rotation_error;
}

}  // namespace

ArmIk::ArmIk(const KuavoModel& model)
    : model_(model),
      data_(model.MakeData()),
      all_position_rows_(3 * static_cast<std::size_t>(model.model()->nv)),
      all_rotation_rows_(3 * static_cast<std::size_t>(model.model()->nv)) {
  for (const Side side : kSides) {
    Limits& limits = limits_[Index(side)];
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      const double* range = &model.model()->jnt_range[2 * model.arm(side).joint[i]];
      limits.low[i] = range[0] + kLimitMargin;
      limits.high[i] = range[1] - kLimitMargin;
      limits.middle[i] = (range[0] + range[1]) / 2.0;
    }
  }
}

void ArmIk::SetJoints(Side side, const JointVector& joints) {
  // the other arm always has the same posture, because its centre of mass affects the last bits
  for (const Side arm : kSides) {
    const JointVector& posture = arm == side ? joints : kHome[Index(arm)];
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      data_->qpos[model_.arm(arm).qpos[i]] = posture[i];
    }
  }
  mj_kinematics(model_.model(), data_.get());
}

Pose ArmIk::PinchPose(Side side, const JointVector& joints) {
  SetJoints(side, joints);
  return kuavo_dualarm::PinchPose(model_, *data_, side);
}

IkSolution ArmIk::Solve(Side side, const Pose& target, const JointVector& seed) {
  IkSolution best = Descend(side, target, seed);
  for (const JointVector& other : {kHome[Index(side)], limits_[Index(side)].middle}) {
    if (best.converged) break;
    const IkSolution found = Descend(side, target, other);
    if (found.converged || Residual(found) < Residual(best)) best = found;
  }
  return best;
}

IkSolution ArmIk::Descend(Side side, const Pose& target, const JointVector& seed) {
  const Limits& limits = limits_[Index(side)];
  IkSolution solution;
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    solution.joints[i] = std::clamp(seed[i], limits.low[i], limits.high[i]);
  }

  for (int iteration = 0;; ++iteration) {
    // the remaining error
    const Pose pose = PinchPose(side, solution.joints);
    const Vector3 turn = RotationBetween(pose.rotation, target.rotation);
    Vector6 error;
    for (std::size_t i = 0; i < 3; ++i) {
      error[i] = target.position[i] - pose.position[i];
      error[3 + i] = kRotationWeight * turn[i];
    }
    solution.position_error = std::hypot(error[0], error[1], error[2]);
    solution.rotation_error = std::hypot(turn[0], turn[1], turn[2]);
    if (iteration == kMaxIterations) return solution;

    // stop if neither the pose nor the posture needs to change
    ReadJacobian(side);
    JointVector step = FindStep(side, error, solution.joints);
    const double largest = LargestMagnitude(step);
    if (solution.position_error < kPositionTolerance &&
        solution.rotation_error < kRotationTolerance && largest < kStepTolerance) {
      solution.converged = true;
      return solution;
    }

    const double scale = largest > kMaxStep ? kMaxStep / largest : 1.0;
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      solution.joints[i] =
          std::clamp(solution.joints[i] + scale * step[i], limits.low[i], limits.high[i]);
    }
  }
}

void ArmIk::ReadJacobian(Side side) {
  const ArmIds& arm = model_.arm(side);
  mj_comPos(model_.model(), data_.get());
  mj_jacSite(model_.model(), data_.get(), all_position_rows_.data(), all_rotation_rows_.data(),
             arm.pinch_site);
  const auto nv = static_cast<std::size_t>(model_.model()->nv);
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      const std::size_t from = row * nv + static_cast<std::size_t>(arm.dof[i]);
      jacobian_[row * kNumArmJoints + i] = all_position_rows_[from];
      jacobian_[(3 + row) * kNumArmJoints + i] = kRotationWeight * all_rotation_rows_[from];
    }
  }
}

JointVector ArmIk::FindStep(Side side, const std::array<double, 6>& error,
                            const JointVector& joints) const {
  const Limits& limits = limits_[Index(side)];
  std::array<bool, kNumArmJoints> is_free;
  is_free.fill(true);

  JointVector step = {};
  for (std::size_t round = 0; round < kNumArmJoints; ++round) {
    // the Jacobian of the free joints, and J J^T + lambda^2 I
    std::array<double, 6 * kNumArmJoints> jacobian = jacobian_;
    JointVector pull = {};
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      if (is_free[i]) {
        pull[i] = kPull * (limits.middle[i] - joints[i]);
      } else {
        for (std::size_t row = 0; row < 6; ++row) jacobian[row * kNumArmJoints + i] = 0.0;
      }
    }
    Matrix6 normal;
    mju_mulMatMatT(normal.data(), jacobian.data(), jacobian.data(), 6, kNumArmJoints, 6);
    for (std::size_t row = 0; row < 6; ++row) normal[7 * row] += kDamping;
    mju_cholFactor(normal.data(), 6, 0.0);

    // step = pull + J^T (J J^T + lambda^2 I)^-1 (error - J pull): the pull only acts in the null
    // space of J
    Vector6 wanted;
    mju_mulMatVec(wanted.data(), jacobian.data(), pull.data(), 6, kNumArmJoints);
    for (std::size_t row = 0; row < 6; ++row) wanted[row] = error[row] - wanted[row];
    Vector6 solved;
    mju_cholSolve(solved.data(), normal.data(), wanted.data(), 6);
    mju_mulMatTVec(step.data(), jacobian.data(), solved.data(), 6, kNumArmJoints);
    for (std::size_t i = 0; i < kNumArmJoints; ++i) step[i] += pull[i];

    // remove the joints that would leave their range, and solve for the others
    bool is_done = true;
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      const bool is_leaving = (joints[i] <= limits.low[i] && step[i] < 0.0) ||
                              (joints[i] >= limits.high[i] && step[i] > 0.0);
      if (!is_free[i] || !is_leaving) continue;
      is_free[i] = false;
      is_done = false;
    }
    if (is_done) break;
  }
  return step;
}

}  // namespace dp_bench::kuavo_dualarm
