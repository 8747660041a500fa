// Solves PushT by planning in the simulation, so that demonstrations can be collected.
#pragma once

#include <dp_bench/env_abilities.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "push_planner.h"
#include "pusht_physics.h"

namespace dp_bench::pusht {

/// Plans one push after the other and carries each out to its end; plans anew where the world is
/// no longer where the plan has it. Actions are targets of the agent [px].
class PushtExpert final : public Expert {
 public:
  /// `state`, of the env that it acts for, must outlive it; it is read and never set. `state_size`:
  /// numbers in it.
  PushtExpert(const StateAccess& state, std::size_t state_size, double success_threshold);

  void Begin(std::uint64_t seed) override;

  /// Throws Error{kShape} on a wrong size, Error{kEnv} before Reset, or when walls bar every push.
  void Act(std::span<float> action) override;

 private:
  bool IsAsPlanned(const PushtState& state) const;
  void Replan(const PushtState& state);

  const StateAccess& state_;
  std::vector<double> numbers_;  // the state
  PushPlanner planner_;
  PushtPhysics prediction_;     // where the env is when it does what the plan says
  std::vector<Point> targets_;  // of the push under way
  std::size_t next_ = 0;
  std::optional<Point> last_target_;  // none while no plan holds
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
};

}  // namespace dp_bench::pusht
