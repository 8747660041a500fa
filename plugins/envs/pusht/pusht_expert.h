// Solves PushT by planning in the simulation, to collect demonstrations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "push_planner.h"
#include "pusht_physics.h"

namespace dp_bench::pusht {

/// Plans one push at a time and executes it to its end. Plans again if the world deviates from the
/// plan. Actions are targets of the agent [px].
class PushtExpert {
 public:
  explicit PushtExpert(double success_threshold);

  void Begin(std::uint64_t seed);

  /// The action for `state`, [2]. Throws Error{kEnv} if walls prevent every push.
  void Act(const PushtState& state, const Motion& motion, std::span<float> action);

 private:
  bool IsAsPlanned(const PushtState& state, const Motion& motion) const;
  void Replan(const PushtState& state, const Motion& motion);

  PushPlanner planner_;
  PushtPhysics prediction_;     // the env's state if it follows the plan
  Motion planned_;              // and the world's motion
  std::vector<Point> targets_;  // of the current push
  std::size_t next_ = 0;
  std::optional<Point> last_target_;  // none without a valid plan
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
};

}  // namespace dp_bench::pusht
