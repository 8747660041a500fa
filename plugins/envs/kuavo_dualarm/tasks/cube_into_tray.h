// What pick_place and conveyor_pick share: the right hand puts a cube into a tray; the left one
// stays at home.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "expert/pick_and_place.h"
#include "placement.h"
#include "task.h"

namespace dp_bench::kuavo_dualarm {

inline constexpr double kCubeHalf = 0.02;  // [m]

/// Where an episode begins.
struct CubeAndTray {
  double cube_height;  // of its centre at the start [m]
  Range cube_x;
  Range cube_y;
  Range tray_y;
};

/// Solved when the cube lies in the tray, at rest and released, for 5 steps in a row. Reward: 0.3
/// lifted by 5 cm, 0.6 above or in the tray, 1 solved. environment_state: pose of the cube (9), x
/// and y of the tray's centre (2).
class CubeIntoTrayTask : public Task {
 public:
  CubeIntoTrayTask(const KuavoModel& model, const CubeAndTray& start);

  int max_steps() const override { return 150; }
  std::vector<MetricSpec> metrics() const override;
  std::size_t environment_state_size() const override { return kPoseSize + 2; }
  std::span<double> counters() override { return {&placed_steps_, 1}; }
  void Start(RandomStream& random, double spread, mjData& data) override;
  StepResult Evaluate(const mjData& data) override;
  void WriteEnvironmentState(const mjData& data, std::span<float> out) const override;

 protected:
  const FreeBody& cube() const { return cube_; }

 private:
  const KuavoModel& model_;
  const CubeAndTray start_;
  FreeBody cube_;
  int cube_geom_;
  int tray_;
  int tray_mocap_;
  double placed_steps_ = 0.0;
  std::array<double, 2> metric_values_ = {};
};

class CubeIntoTrayScript : public Script {
 public:
  explicit CubeIntoTrayScript(const KuavoModel& model);

  void Begin(RandomStream& random) override { hand_.Begin(random); }
  ArmGoals Plan(const SceneView& scene) override;

 protected:
  const double* CubePosition(const SceneView& scene) const {
    return &scene.data.geom_xpos[3 * cube_];
  }
  bool IsInTray(const SceneView& scene) const;
  PickAndPlace& hand() { return hand_; }

 private:
  int tray_;
  int cube_;
  PickAndPlace hand_;
};

}  // namespace dp_bench::kuavo_dualarm
