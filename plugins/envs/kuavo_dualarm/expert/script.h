// What the expert of a task decides at every control step: the goal of each hand.
#pragma once

#include <array>

#include "dp_bench/random.h"
#include "kuavo_model.h"
#include "pose.h"
#include "trajectory.h"

namespace dp_bench::kuavo_dualarm {

/// The measured state of a hand.
struct HandState {
  Pose pinch;
  double closure = 0.0;  // 0 open .. 1 closed
};

/// The env at the start of a control step.
struct SceneView {
  const KuavoModel& model;
  const mjData& data;
  std::array<HandState, kNumSides> hands;  // by Index(side)
};

using ArmGoals = std::array<ArmGoal, kNumSides>;

/// The strategy for one task. It changes stages based on measurements, never on the clock alone. So
/// its actions are nearly a function of what a policy observes, and it recovers from failures.
class Script {
 public:
  virtual ~Script() = default;
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  /// Draws the variation of an episode.
  virtual void Begin(RandomStream& random) = 0;

  /// The goals of both arms for the next control step.
  virtual ArmGoals Plan(const SceneView& scene) = 0;

 protected:
  Script() = default;
};

/// A random number from [low, high).
inline double DrawBetween(RandomStream& random, double low, double high) {
  return low + (high - low) * random.UniformDouble();
}

}  // namespace dp_bench::kuavo_dualarm
