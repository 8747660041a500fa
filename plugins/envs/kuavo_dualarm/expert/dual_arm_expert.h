// The scripted expert of kuavo_dualarm, for all of its tasks.
#pragma once

#include <dp_bench/env_abilities.h>

#include <array>
#include <memory>

#include "ik.h"
#include "script.h"
#include "tasks/task.h"
#include "trajectory.h"

namespace dp_bench::kuavo_dualarm {

/// Sees the true state of the env and moves both arms towards what the script of the task asks for.
/// Within the joint ranges and 1.5 rad/s. It keeps its own commands from step to step, so that
/// noise on the executed actions is corrected, not followed.
class DualArmExpert final : public Expert {
 public:
  /// `model` and `data`, the live data of the env, must outlive it.
  DualArmExpert(const KuavoModel& model, const mjData& data, TaskKind task);

  void Begin(std::uint64_t seed) override;

  /// Throws Error{kShape} on a wrong size, Error{kEnv} before Begin, or when what it must reach is
  /// out of reach.
  void Act(std::span<float> action) override;

 private:
  SceneView Look() const;

  const KuavoModel& model_;
  const mjData& data_;
  ArmIk ik_;
  std::array<ArmTrajectory, kNumSides> arms_;
  std::unique_ptr<Script> script_;
  bool has_begun_ = false;
};

}  // namespace dp_bench::kuavo_dualarm
