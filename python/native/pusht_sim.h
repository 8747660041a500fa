// One PushT simulation with gym-pusht's observations, scores and rounding, on the physics of the
// env plugin `pusht`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "pusht_physics.h"
#include "pusht_world.h"

namespace dp_bench::python {

/// An episode succeeds above this coverage; the reward is coverage / this, clipped to [0, 1].
inline constexpr double kSuccessCoverage = 0.95;

inline constexpr std::size_t kStateSize = 5;
inline constexpr std::size_t kKeypointsSize = 16;

/// Agent x, y and block x, y [px], block angle [rad]: gym-pusht's `reset_to_state`.
using PushtStart = std::array<double, kStateSize>;

/// The start that diffusion_policy's PushTEnv draws with this seed.
PushtStart LegacyStart(std::uint64_t seed);

class PushtSim {
 public:
  /// As in gym-pusht, the block is placed upright and then turned about its centre of gravity, and
  /// one substep runs, which pushes a block that overlaps the agent or a wall.
  void Reset(const PushtStart& start);

  /// One control period of 0.1 s towards `target` [px].
  void Step(const pusht::Point& target);

  const pusht::PushtState& state() const { return physics_.state(); }
  double coverage() const { return coverage_; }  // after Step
  bool is_success() const { return is_success_; }
  double reward() const;

  /// gym-pusht's info["n_contacts"]. It divides the contact points of a step by 1,000, not by the
  /// ten substeps, and rounds up: 1 if anything touched the block.
  int n_contacts() const { return physics_.n_contact_points() > 0 ? 1 : 0; }

  /// Agent x, y, block x, y, and the angle in [0, 2 pi).
  void WriteState(std::span<double, kStateSize> state) const;

  /// x, y of the corners of the bar, then of the stem, in gym-pusht's order.
  void WriteKeypoints(std::span<double, kKeypointsSize> keypoints) const;

 private:
  pusht::PushtPhysics physics_;
  double coverage_ = 0.0;
  bool is_success_ = false;
};

}  // namespace dp_bench::python
