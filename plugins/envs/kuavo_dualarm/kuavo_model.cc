// Compiles MJCF and looks up ids by name.
#include "kuavo_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "dp_bench/error.h"

namespace dp_bench::kuavo_dualarm {

KuavoModel::KuavoModel(const std::filesystem::path& scene_file)
    : scene_file_(std::filesystem::absolute(scene_file).string()),
      model_(mujoco::SharedModel(scene_file_)) {
  arms_ = {FindArm('l'), FindArm('r')};
  head_ = {.qpos = {QposOf("zhead_1_joint"), QposOf("zhead_2_joint")},
           .actuator = {Actuator("head_1"), Actuator("head_2")}};
  std::ranges::transform(kRobotCameras, cameras_.begin(),
                         [&](const RobotCamera& camera) { return Camera(camera.name); });
  cameras_.back() = Camera("scene_cam");
}

std::unique_ptr<KuavoModel> KuavoModel::Copy() const {
  auto copy = std::make_unique<KuavoModel>(*this);
  copy->copy_ = mujoco::CopyModel(*model_);
  copy->model_ = copy->copy_;
  return copy;
}

mjModel* KuavoModel::mutable_model() {
  DPB_ASSERT(copy_ != nullptr);
  return copy_.get();
}

ArmIds KuavoModel::FindArm(char side) const {
  ArmIds arm = {};
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    const std::string joint = fmt::format("zarm_{}{}_joint", side, i + 1);
    arm.joint[i] = Joint(joint);
    arm.qpos[i] = QposOf(joint);
    arm.dof[i] = DofOf(joint);
    arm.actuator[i] = Actuator(fmt::format("{}{}", side, i + 1));
  }
  constexpr std::array<char, kNumFingers> kFingerNames = {'a', 'b'};
  for (std::size_t i = 0; i < kNumFingers; ++i) {
    arm.finger_qpos[i] = QposOf(fmt::format("{}_finger_{}_joint", side, kFingerNames[i]));
    arm.pad_geom[i] = Geom(fmt::format("{}_pad_{}", side, kFingerNames[i]));
  }
  arm.gripper_actuator = Actuator(fmt::format("{}_gripper", side));
  arm.pinch_site = Site(fmt::format("{}_pinch", side));
  arm.hand_body = Body(fmt::format("zarm_{}7_link", side));
  return arm;
}

int KuavoModel::MocapOf(const std::string& body) const {
  const int mocap = model_->body_mocapid[Body(body)];
  if (mocap < 0) {
    throw Error(ErrorCode::kEnv,
                fmt::format("expected body '{}' of {} to be a mocap body", body, scene_file_));
  }
  return mocap;
}

double KuavoModel::GripperClosure(const mjData& data, Side side) const {
  const ArmIds& ids = arm(side);
  return (data.qpos[ids.finger_qpos[0]] + data.qpos[ids.finger_qpos[1]]) / (2.0 * kFingerTravel);
}

bool KuavoModel::PadTouches(const mjData& data, Side side, std::size_t finger, int geom) const {
  const int pad = arm(side).pad_geom[finger];
  for (int i = 0; i < data.ncon; ++i) {
    const mjContact& contact = data.contact[i];
    if ((contact.geom[0] == pad && contact.geom[1] == geom) ||
        (contact.geom[0] == geom && contact.geom[1] == pad)) {
      return true;
    }
  }
  return false;
}

bool KuavoModel::AnyPadTouches(const mjData& data, Side side, int geom) const {
  return PadTouches(data, side, 0, geom) || PadTouches(data, side, 1, geom);
}

}  // namespace dp_bench::kuavo_dualarm
