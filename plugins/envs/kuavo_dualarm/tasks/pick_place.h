// The right hand puts a cube into a tray.
#pragma once

#include <array>

#include "placement.h"
#include "task.h"

namespace dp_bench::kuavo_dualarm {

/// Solved when the cube lies in the tray, at rest and released, for 5 steps in a row. Reward: 0.3
/// lifted by 5 cm, 0.6 above or in the tray, 1 solved. environment_state: pose of the cube (9), x
/// and y of the tray's centre (2).
class PickPlaceTask final : public Task {
 public:
  explicit PickPlaceTask(const KuavoModel& model);

  TaskKind kind() const override { return TaskKind::kPickPlace; }
  int max_steps() const override { return 150; }
  std::span<const MetricSpec> metrics() const override;
  void Start(RandomStream& random, double spread, mjData& data) override;
  TaskOutcome Evaluate(const mjData& data) override;
  std::span<const double> metric_values() const override { return metric_values_; }
  std::size_t environment_state_size() const override { return kPoseSize + 2; }
  void WriteEnvironmentState(const mjData& data, std::span<float> out) const override;
  std::span<double> counters() override { return {&placed_steps_, 1}; }

 private:
  const KuavoModel& model_;
  FreeBody cube_;
  int cube_geom_;
  int tray_;
  int tray_mocap_;
  double placed_steps_ = 0.0;
  std::array<double, 2> metric_values_ = {};
};

}  // namespace dp_bench::kuavo_dualarm
