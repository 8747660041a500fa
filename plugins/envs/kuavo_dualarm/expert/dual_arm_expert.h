// The scripted expert of kuavo_dualarm, for all its tasks.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "ik.h"
#include "script.h"
#include "tasks/task.h"
#include "trajectory.h"

namespace dp_bench::kuavo_dualarm {

/// Reads the true state of the env and moves both arms towards the goals of the task's script,
/// within the joint ranges and 1.5 rad/s. It keeps its own commands from step to step, so it
/// corrects noise on the executed actions instead of following it.
class DualArmExpert {
 public:
  /// `model` and `data`, the live data of the env, must outlive it.
  DualArmExpert(const KuavoModel& model, const mjData& data, const TaskKind& task);

  /// See Env::BeginExpert.
  void Begin(std::uint64_t seed);

  /// After Begin. Throws Error{kEnv} if a goal is out of reach.
  void Act(std::span<float> action);

 private:
  SceneView Look() const;

  const KuavoModel& model_;
  const mjData& data_;
  ArmIk ik_;
  std::array<ArmTrajectory, kNumSides> arms_;
  std::unique_ptr<Script> script_;
};

}  // namespace dp_bench::kuavo_dualarm
