// The script decides where the hands go, the trajectories how fast.
#include "dual_arm_expert.h"

#include "dp_bench/random.h"

namespace dp_bench::kuavo_dualarm {

DualArmExpert::DualArmExpert(const KuavoModel& model, const mjData& data, const TaskKind& task)
    : model_(model),
      data_(data),
      ik_(model),
      arms_({ArmTrajectory(ik_, Side::kLeft), ArmTrajectory(ik_, Side::kRight)}),
      script_(task.make_script(model)) {}

void DualArmExpert::Begin(std::uint64_t seed) {
  // the expert replaces a policy, so it draws from the policy's stream
  RandomStream random(seed, StreamId::kPolicyNoise);
  const MotionCaps caps = {.joint_speed = DrawBetween(random, 1.1, 1.3),
                           .line_speed = DrawBetween(random, 0.22, 0.28)};
  for (const Side side : kSides) {
    JointVector joints;
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      joints[i] = data_.qpos[model_.arm(side).qpos[i]];
    }
    arms_[Index(side)].Start(joints, model_.GripperClosure(data_, side), caps);
  }
  script_->Begin(random);
}

void DualArmExpert::Act(std::span<float> action) {
  const ArmGoals goals = script_->Plan(Look());
  for (const Side side : kSides) {
    arms_[Index(side)].Advance(goals[Index(side)],
                               action.subspan(Index(side) * kSideDim, kSideDim));
  }
}

SceneView DualArmExpert::Look() const {
  SceneView scene = {.model = model_, .data = data_, .hands = {}};
  for (const Side side : kSides) {
    scene.hands[Index(side)] = {.pinch = PinchPose(model_, data_, side),
                                .closure = model_.GripperClosure(data_, side)};
  }
  return scene;
}

}  // namespace dp_bench::kuavo_dualarm
