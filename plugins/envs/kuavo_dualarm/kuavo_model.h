// The compiled robot and task scene, with the ids of everything that the env, its experts and its
// renderer use. Joint, site, actuator and camera names are those of scenes/kuavo/.
#pragma once

#include <mujoco/mujoco.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

#include "dp_bench/mujoco/model.h"

namespace dp_bench::kuavo_dualarm {

enum class Side : std::size_t { kLeft = 0, kRight = 1 };
inline constexpr std::array<Side, 2> kSides = {Side::kLeft, Side::kRight};
constexpr std::size_t Index(Side side) { return static_cast<std::size_t>(side); }

inline constexpr std::size_t kNumSides = 2;
inline constexpr std::size_t kNumArmJoints = 7;
inline constexpr std::size_t kNumFingers = 2;

/// State and action: per side seven joint angles [rad] and the gripper (0 open, 1 closed); the left
/// side first.
inline constexpr std::size_t kSideDim = kNumArmJoints + 1;
inline constexpr std::size_t kActionDim = kNumSides * kSideDim;

inline constexpr double kFingerTravel = 0.0426;  // [m] per finger, from open to closed
inline constexpr double kTableTop = 0.75;        // [m] above the floor

/// The start posture of every episode [rad]: the hands in front of the robot, 0.93 m above the
/// floor, approaching 30 degrees downwards.
inline constexpr double kDegree = mjPI / 180.0;
inline constexpr std::array<std::array<double, kNumArmJoints>, kNumSides> kHome = {{
    {30 * kDegree, 0, 0, -130 * kDegree, -90 * kDegree, -40 * kDegree, 0},
    {30 * kDegree, 0, 0, -130 * kDegree, 90 * kDegree, 40 * kDegree, 0},
}};

/// Ids of one arm with its gripper. Angles are data.qpos[qpos[i]], velocities data.qvel[dof[i]].
struct ArmIds {
  std::array<int, kNumArmJoints> joint;
  std::array<int, kNumArmJoints> qpos;
  std::array<int, kNumArmJoints> dof;
  std::array<int, kNumArmJoints> actuator;
  std::array<int, kNumFingers> finger_qpos;
  int gripper_actuator;
  int pinch_site;                         // approach along its -z, closing axis along its x
  std::array<int, kNumFingers> pad_geom;  // a, b
  int hand_body;                          // l7, r7
};

struct HeadIds {
  std::array<int, 2> qpos;  // yaw, pitch
  std::array<int, 2> actuator;
};

/// A camera on the robot: its name in scenes/kuavo/ and in observation.images.<name>, and the name
/// of its depth in observation.depth.<depth>. A new one needs a line here and its place in the
/// MJCF.
struct RobotCamera {
  const char* name;
  const char* depth;
};
inline constexpr auto kRobotCameras = std::to_array<RobotCamera>(
    {{"head_cam_h", "depth_h"}, {"wrist_cam_l", "depth_l"}, {"wrist_cam_r", "depth_r"}});
inline constexpr std::size_t kNumCameras = kRobotCameras.size() + 1;

/// A scene of scenes/kuavo/, shared by the envs of this process, or a copy whose numbers may
/// change.
class KuavoModel {
 public:
  /// Compiles an MJCF file. Throws Error{kEnv} with MuJoCo's message if that fails or warns, and if
  /// a required part of the robot is missing.
  explicit KuavoModel(const std::filesystem::path& scene_file);

  /// A copy whose numbers may be changed.
  std::unique_ptr<KuavoModel> Copy() const;

  const mjModel* model() const { return model_.get(); }
  /// Of a copy only.
  mjModel* mutable_model();
  const std::string& scene_file() const { return scene_file_; }

  const ArmIds& arm(Side side) const { return arms_[Index(side)]; }
  const HeadIds& head() const { return head_; }
  /// The robot's, as in kRobotCameras, then the one that watches the scene.
  const std::array<int, kNumCameras>& cameras() const { return cameras_; }

  /// Ids by name. Throw Error{kEnv} naming what is missing.
  int Body(const std::string& name) const { return mujoco::IdOf(*model_, mjOBJ_BODY, name); }
  int Joint(const std::string& name) const { return mujoco::IdOf(*model_, mjOBJ_JOINT, name); }
  int Geom(const std::string& name) const { return mujoco::IdOf(*model_, mjOBJ_GEOM, name); }
  int Site(const std::string& name) const { return mujoco::IdOf(*model_, mjOBJ_SITE, name); }
  int Camera(const std::string& name) const { return mujoco::IdOf(*model_, mjOBJ_CAMERA, name); }
  int Actuator(const std::string& name) const {
    return mujoco::IdOf(*model_, mjOBJ_ACTUATOR, name);
  }

  /// Where the coordinates of a joint begin in data.qpos and data.qvel.
  int QposOf(const std::string& joint) const { return model_->jnt_qposadr[Joint(joint)]; }
  int DofOf(const std::string& joint) const { return model_->jnt_dofadr[Joint(joint)]; }
  /// The row of a mocap body in data.mocap_pos and data.mocap_quat.
  int MocapOf(const std::string& body) const;

  mujoco::DataPtr MakeData() const { return mujoco::MakeData(*model_); }

  /// How far the gripper is closed, 0 open .. 1 closed, from the gap between its pads.
  double GripperClosure(const mjData& data, Side side) const;

  /// Whether a pad of the gripper touches the geom.
  bool PadTouches(const mjData& data, Side side, std::size_t finger, int geom) const;
  bool AnyPadTouches(const mjData& data, Side side, int geom) const;

 private:
  ArmIds FindArm(char side) const;

  std::string scene_file_;  // absolute
  std::shared_ptr<const mjModel> model_;
  std::shared_ptr<mjModel> copy_;  // the same model, of a copy
  std::array<ArmIds, kNumSides> arms_ = {};
  HeadIds head_ = {};
  std::array<int, kNumCameras> cameras_ = {};
};

}  // namespace dp_bench::kuavo_dualarm
