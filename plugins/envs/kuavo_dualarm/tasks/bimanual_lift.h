// Both hands lift a tray by its ears and keep the load inside.
#pragma once

#include <array>

#include "placement.h"
#include "task.h"

namespace dp_bench::kuavo_dualarm {

/// Solved when, for 10 steps in a row, the tray is raised by 10 cm and tilted by less than 12
/// degrees, the load is inside, and both pads of both hands touch their ear. Reward: 0.3 both ears
/// held, 0.6 held and raised by 5 cm, 1 solved. environment_state: pose of the tray (9), position
/// of the load (3).
class BimanualLiftTask final : public Task {
 public:
  explicit BimanualLiftTask(const KuavoModel& model);

  TaskKind kind() const override { return TaskKind::kBimanualLift; }
  int max_steps() const override { return 150; }
  std::span<const MetricSpec> metrics() const override;
  void Start(RandomStream& random, double spread, mjData& data) override;
  TaskOutcome Evaluate(const mjData& data) override;
  std::span<const double> metric_values() const override { return metric_values_; }
  std::size_t environment_state_size() const override { return kPoseSize + 3; }
  void WriteEnvironmentState(const mjData& data, std::span<float> out) const override;
  std::span<double> counters() override { return {&lifted_steps_, 1}; }

 private:
  bool LoadInside(const mjData& data) const;
  bool Held(const mjData& data) const;

  const KuavoModel& model_;
  FreeBody tray_;
  FreeBody load_;
  std::array<int, kNumSides> ear_geom_;
  double lifted_steps_ = 0.0;
  std::array<double, 2> metric_values_ = {};
};

}  // namespace dp_bench::kuavo_dualarm
