// The right hand weighs a parcel on the scale, then the left hand brings it to the goal: the
// challenge's parcel weighing with a rigid parcel.
#pragma once

#include <array>

#include "placement.h"
#include "task.h"

namespace dp_bench::kuavo_dualarm {

/// Weighed: the parcel rested on the scale without touching a pad, for 5 steps in a row. Solved:
/// after that it rests in the goal with both grippers open, for 5 steps in a row. Reward: 0.2
/// lifted, 0.4 weighed, 0.6 weighed and lifted by the left hand, 1 solved. The metric
/// `challenge_score` is 40 for weighed + 40 for placed + 20 for time (all 20 up to 20 s of
/// simulated time, then 1 less per second). environment_state: pose of the parcel (9), x and y of
/// the goal (2), progress of the weighing (1).
class WeighRelayTask final : public Task {
 public:
  explicit WeighRelayTask(const KuavoModel& model);

  TaskKind kind() const override { return TaskKind::kWeighRelay; }
  int max_steps() const override { return 300; }
  std::span<const MetricSpec> metrics() const override;
  void Start(RandomStream& random, double spread, mjData& data) override;
  TaskOutcome Evaluate(const mjData& data) override;
  std::span<const double> metric_values() const override { return metric_values_; }
  std::size_t environment_state_size() const override { return kPoseSize + 3; }
  void WriteEnvironmentState(const mjData& data, std::span<float> out) const override;
  std::span<double> counters() override { return counters_; }

 private:
  enum Counter : std::size_t { kWeighedSteps, kPlacedSteps, kNumCounters };

  bool Weighed() const;
  bool RestsOnScale(const mjData& data) const;
  bool RestsInGoal(const mjData& data) const;

  const KuavoModel& model_;
  FreeBody parcel_;
  int parcel_geom_;
  int scale_;
  int goal_;
  int goal_mocap_;
  std::array<double, kNumCounters> counters_ = {};
  std::array<double, 2> metric_values_ = {};
};

}  // namespace dp_bench::kuavo_dualarm
