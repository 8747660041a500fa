// Compiles MJCF and looks up ids by name.
#include "kuavo_model.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "dp_bench/error.h"
#include "mujoco_log.h"

namespace dp_bench::kuavo_dualarm {
namespace {

namespace fs = std::filesystem;

MjModelPtr Compile(const std::string& file) {
  InstallMujocoLog();
  std::array<char, 1024> message = {};
  MjModelPtr model(
      mj_loadXML(file.c_str(), nullptr, message.data(), static_cast<int>(message.size())));
  // a warning gives both a model and a message
  if (model == nullptr || message[0] != '\0') {
    throw Error(ErrorCode::kEnv,
                fmt::format("expected a MuJoCo scene in {}, but: {}", file, message.data()));
  }
  return model;
}

/// The file of the library or program that contains this code.
fs::path OwnFile() {
  static const char anchor = 0;
  Dl_info info = {};
  if (dladdr(&anchor, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code failed;
  const fs::path file = fs::weakly_canonical(info.dli_fname, failed);
  return failed ? fs::path() : file;
}

}  // namespace

KuavoModel::KuavoModel(const fs::path& scene_file)
    // MuJoCo joins a relative path twice if a scene attaches another file
    : scene_file_(fs::absolute(scene_file).string()), model_(Compile(scene_file_)) {
  arms_ = {FindArm('l'), FindArm('r')};
  head_ = {.qpos = {QposOf("zhead_1_joint"), QposOf("zhead_2_joint")},
           .actuator = {Actuator("head_1"), Actuator("head_2")}};
  cameras_ = {.head = Camera("head_cam_h"),
              .wrist = {Camera("wrist_cam_l"), Camera("wrist_cam_r")},
              .scene = Camera("scene_cam")};
}

KuavoModel::KuavoModel(const KuavoModel& other, MjModelPtr model)
    : scene_file_(other.scene_file_),
      model_(std::move(model)),
      arms_(other.arms_),
      head_(other.head_),
      cameras_(other.cameras_) {}

std::shared_ptr<const KuavoModel> KuavoModel::Shared(const fs::path& scene_file) {
  static std::mutex mutex;
  static std::map<fs::path, std::weak_ptr<const KuavoModel>> models;
  const std::lock_guard lock(mutex);
  std::weak_ptr<const KuavoModel>& entry = models[fs::absolute(scene_file)];
  if (std::shared_ptr<const KuavoModel> model = entry.lock()) return model;
  auto model = std::make_shared<const KuavoModel>(scene_file);
  entry = model;
  return model;
}

std::unique_ptr<KuavoModel> KuavoModel::Copy() const {
  MjModelPtr copy(mj_copyModel(nullptr, model_.get()));
  DPB_ASSERT(copy != nullptr);
  return std::unique_ptr<KuavoModel>(new KuavoModel(*this, std::move(copy)));
}

MjDataPtr KuavoModel::MakeData() const {
  MjDataPtr data(mj_makeData(model_.get()));
  DPB_ASSERT(data != nullptr);
  return data;
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
    const std::string joint = fmt::format("{}_finger_{}_joint", side, kFingerNames[i]);
    arm.finger_joint[i] = Joint(joint);
    arm.finger_qpos[i] = QposOf(joint);
    arm.finger_dof[i] = DofOf(joint);
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

int KuavoModel::Id(mjtObj type, const std::string& name) const {
  const int id = mj_name2id(model_.get(), type, name.c_str());
  if (id < 0) {
    throw Error(ErrorCode::kEnv,
                fmt::format("{} has no {} named '{}', which env 'kuavo_dualarm' needs", scene_file_,
                            mju_type2Str(type), name));
  }
  return id;
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

fs::path FindScene(const std::string& scene_dir, const std::string& scene_file) {
  // an explicitly named folder must have the scene; the others are tried in turn
  std::vector<fs::path> folders;
  const char* const variable = std::getenv("DP_BENCH_SCENE_PATH");
  if (!scene_dir.empty()) {
    folders = {scene_dir};
  } else if (variable != nullptr && *variable != '\0') {
    folders = {variable};
  } else {
    folders = {"scenes"};
    const fs::path own_file = OwnFile();
    for (fs::path folder = own_file.parent_path(); folder.has_relative_path();
         folder = folder.parent_path()) {
      folders.push_back(folder / "scenes");
      folders.push_back(folder / "share" / "dp_bench" / "scenes");  // of an installation
    }
  }
  std::string tried;
  for (const fs::path& folder : folders) {
    fs::path file = folder / "kuavo" / scene_file;
    std::error_code failed;
    if (fs::is_regular_file(file, failed)) return file;
    tried += fmt::format("\n  {}", file.string());
  }
  throw Error(ErrorCode::kEnv,
              fmt::format("found no scene kuavo/{}; looked for:{}\nGive the param scene_dir or set "
                          "DP_BENCH_SCENE_PATH to the folder that holds kuavo/",
                          scene_file, tried));
}

}  // namespace dp_bench::kuavo_dualarm
