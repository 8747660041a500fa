// PushT with gym-pusht's starts, observations, scores and rounding, on the physics of the env
// plugin `pusht`.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "pusht_physics.h"
#include "simulation.h"

namespace dp_bench::python {

/// An episode succeeds above this coverage; the reward is coverage / this, clipped to [0, 1].
inline constexpr double kSuccessCoverage = 0.95;

/// Agent x, y and block x, y [px], block angle [rad]: gym-pusht's `reset_to_state`.
using PushtStart = std::array<double, 5>;

/// The start that diffusion_policy's PushTEnv draws with this seed.
PushtStart LegacyStart(std::uint64_t seed);

class PushtSimulation final : public Simulation {
 public:
  /// `obs`: of state, environment_state, agent_pos and pixels.
  explicit PushtSimulation(const std::vector<std::string>& obs);

  const SimulationSpec& spec() const override { return spec_; }
  void Reset(std::uint64_t seed) override { ResetTo(LegacyStart(seed)); }

  /// As in gym-pusht, the block is placed upright and then turned about its centre of gravity, and
  /// one substep runs, which pushes a block that overlaps the agent or a wall.
  void ResetTo(std::span<const double> start) override;
  Outcome Step(std::span<const double> action) override;
  void Observe(std::span<std::byte* const> arrays, std::size_t row) override;
  void WriteInfos(std::span<double> infos) const override;
  void Render(RgbImage* frame) override;

 private:
  enum class Part { kState, kEnvironmentState, kAgentPos, kPixels };

  std::vector<Part> parts_;  // of an observation
  SimulationSpec spec_;
  pusht::PushtPhysics physics_;
  std::optional<pusht::Point> target_;  // of the latest step, for images
  double coverage_ = 0.0;               // 0 after a reset
};

}  // namespace dp_bench::python
