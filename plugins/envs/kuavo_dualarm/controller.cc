#include "controller.h"

#include <algorithm>

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kMaxJointChange = kMaxTargetSpeed / kControlHz;  // [rad] per control step

constexpr bool IsGripper(std::size_t i) { return i % kSideDim == kNumArmJoints; }

}  // namespace

Controller::Controller(const KuavoModel& model) {
  for (const Side side : kSides) {
    const ArmIds& arm = model.arm(side);
    const std::size_t first = Index(side) * kSideDim;
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      const double* const range = model.model()->jnt_range + 2 * arm.joint[i];
      actuator_[first + i] = arm.actuator[i];
      scale_[first + i] = 1.0;
      low_[first + i] = range[0];
      high_[first + i] = range[1];
    }
    const std::size_t gripper = first + kNumArmJoints;
    actuator_[gripper] = arm.gripper_actuator;
    scale_[gripper] = kFingerTravel;
    low_[gripper] = 0.0;
    high_[gripper] = 1.0;
  }
}

void Controller::Hold(const Command& command) { commands_.fill(command); }

void Controller::SetCommand(const Command& command) {
  commands_ = {commands_[1], commands_[2], command};
  for (std::size_t i = 0; i < kActionDim; ++i) {
    double& target = commands_[2][i];
    const double before = commands_[1][i];
    target = std::clamp(target, low_[i], high_[i]);
    if (!IsGripper(i)) {
      target = std::clamp(target, before - kMaxJointChange, before + kMaxJointChange);
    }
  }
}

void Controller::WriteTargets(int substep, double delay, mjData& data) const {
  // the position between two commands, as a share of a control step
  double share = static_cast<double>(substep + 1) / kSubsteps - delay * kControlHz;
  const std::size_t from = share < 0.0 ? 0 : 1;
  if (share < 0.0) share += 1.0;
  for (std::size_t i = 0; i < kActionDim; ++i) {
    const double start = commands_[from][i];
    data.ctrl[actuator_[i]] = scale_[i] * (start + share * (commands_[from + 1][i] - start));
  }
}

void Controller::GetState(std::span<double> state) const {
  auto out = state.begin();
  for (const std::size_t k : {std::size_t{1}, std::size_t{2}}) {
    out = std::copy(commands_[k].begin(), commands_[k].end(), out);
  }
}

void Controller::SetState(std::span<const double> state) {
  for (std::size_t i = 0; i < kActionDim; ++i) {
    commands_[1][i] = state[i];
    commands_[2][i] = state[kActionDim + i];
  }
  commands_[0] = commands_[1];
}

}  // namespace dp_bench::kuavo_dualarm
