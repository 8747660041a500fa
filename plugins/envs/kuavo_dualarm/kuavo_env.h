// Kuavo's upper body at a table, simulated by MuJoCo: two arms of seven joints with grippers, a
// head camera and two wrist cameras.
#pragma once

#include <cstdint>
#include <memory>

#include "cameras.h"
#include "controller.h"
#include "dp_bench/env.h"
#include "expert/ik.h"
#include "expert/pose.h"
#include "kuavo_model.h"
#include "params.h"
#include "randomization.h"
#include "tasks/task.h"

namespace dp_bench::kuavo_dualarm {

class DualArmExpert;

/// State and action have 16 numbers: left arm (7 joints), left gripper, right arm, right gripper.
/// An action gives absolute joint targets [rad], cut to the joint ranges and to 10 rad/s, and
/// gripper targets from 0 (open) to 1 (closed); servos follow them over 50 physics steps of 2 ms.
/// The torso stands still, the head holds its pitch. Observations by param `obs`:
///   state  observation.environment_state (the task's objects, see tasks/), observation.state
///          (measured joints and grippers)
///   rgb    observation.images.<camera> of kRobotCameras, observation.state
///   rgbd   the same, and observation.depth.<depth>
/// Other params, with defaults: task pick_place | bimanual_lift | weigh_relay | conveyor_pick,
/// image_width 640, image_height 480, depth_dtype uint16 [mm] | float32 [m], head_pitch 0.40 [rad]
/// (the challenge has 0.209), render tiled | scene, scene_dir "", randomization {}, perturb {} and
/// conveyor {} (params.h).
class KuavoEnv final : public Env {
 public:
  /// Loads the scene, which is shared with the envs that are created later.
  static EnvSpec Describe(const Config& config);

  explicit KuavoEnv(const Config& config);
  ~KuavoEnv() override;

  const KuavoModel& model() const { return *model_; }
  const mjData& data() const { return *data_; }

 private:
  void DoReset(std::uint64_t seed) override;
  StepResult DoStep(std::span<const float> action) override;
  void DoObserve(const ObsWriter& obs) override;
  void DoRender(RgbImage* frame) override;

  // MuJoCo's integration state, the task's counters, the controller's commands, and the episode's
  // seed and step.
  void DoGetState(std::span<double> state) const override;
  void DoSetState(std::span<const double> state) override;

  void DoBeginExpert(std::uint64_t seed) override;
  void DoAct(std::span<float> action) override;

  CameraParameters DoGetCamera(int camera, int width, int height) const override;
  void DoRenderCamera(int camera, RgbImage* frame) override;

  // Two marks: the grasp points of the left and the right gripper, in Render's view of the scene.
  // The marks of an action are where its joint targets lead without obstacles.
  void DoMarks(std::span<const float> action, int width, int height,
               std::span<float> xy) const override;

  void BeginEpisode(std::uint64_t seed);
  void PlaceRobot();
  Command NoisyCommand(std::span<const float> action) const;
  void WriteState(std::span<float> out) const;
  Pose PinchPoseAfter(std::span<const float> action, Side side) const;

  Params params_;
  std::shared_ptr<const KuavoModel> original_;
  std::unique_ptr<ModelRandomizer> randomizer_;  // null if every episode has the same model
  const KuavoModel* model_;                      // belongs to one of the two above
  mujoco::DataPtr data_;
  std::unique_ptr<Task> task_;
  Controller controller_;
  Cameras cameras_;
  std::unique_ptr<DualArmExpert> expert_;       // created on first use
  mutable std::unique_ptr<ArmIk> action_arms_;  // created on first use; computes where actions lead

  std::uint64_t seed_ = 0;
  std::int64_t step_ = 0;
  double delay_ = 0.0;  // [s]
};

}  // namespace dp_bench::kuavo_dualarm
