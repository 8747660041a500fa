// The extension module dp_bench._core: PushT with gym-pusht's starts, observations, scores and
// rounding, on the physics of the env plugin `pusht`. It needs no library beyond the C library.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bindings.h"
#include "coverage.h"
#include "dp_bench/error.h"
#include "legacy_random.h"
#include "pusht_physics.h"
#include "pusht_render.h"
#include "simulation.h"

namespace dp_bench::python {
namespace {

using pusht::kBlockCog;
using pusht::kImageSize;

// An episode succeeds above this coverage; the reward is coverage / this, clipped to [0, 1].
constexpr double kSuccessCoverage = 0.95;

// Agent x, y and block x, y [px], block angle [rad]: gym-pusht's `reset_to_state`.
using PushtStart = std::array<double, 5>;

// In the order of PushtSimulation::Part.
const std::array<ArraySpec, 4> kParts = {
    ArraySpec{"state", {5}, "float64", 5 * sizeof(double)},
    ArraySpec{"environment_state", {16}, "float64", 16 * sizeof(double)},
    ArraySpec{"agent_pos", {2}, "float64", 2 * sizeof(double)},
    ArraySpec{
        "pixels", {kImageSize, kImageSize, 3}, "uint8", std::size_t{kImageSize} * kImageSize * 3}};

// The start that diffusion_policy's PushTEnv draws with this seed.
PushtStart LegacyStart(std::uint64_t seed) {
  pusht::LegacyRandomState random(seed);
  PushtStart start;
  for (std::size_t i = 0; i < 4; ++i) {
    start[i] = static_cast<double>(i < 2 ? random.RandInt(50, 450) : random.RandInt(100, 400));
  }
  start[4] = random.Randn() * 2.0 * pusht::kPi - pusht::kPi;
  return start;
}

class PushtSimulation final : public Simulation {
 public:
  // `obs`: of state, environment_state, agent_pos and pixels.
  explicit PushtSimulation(const std::vector<std::string>& obs)
      : spec_{.obs = {},
              .action_low = {0.0F, 0.0F},
              .action_high = {static_cast<float>(pusht::kWorldSize),
                              static_cast<float>(pusht::kWorldSize)},
              .control_hz = 10.0,
              .max_steps = 300,
              .infos = {"agent_x", "agent_y", "agent_velocity_x", "agent_velocity_y", "block_x",
                        "block_y", "block_angle", "n_contacts", "coverage"},
              .state_size = std::tuple_size_v<PushtStart>} {
    for (const std::string& name : obs) {
      const auto part = std::ranges::find(kParts, name, &ArraySpec::name);
      if (part == kParts.end()) throw Error(ErrorCode::kConfig, "PushT has no '" + name + "'");
      parts_.push_back(static_cast<Part>(part - kParts.begin()));
      spec_.obs.push_back(*part);
    }
  }

  const SimulationSpec& spec() const override { return spec_; }
  void Reset(std::uint64_t seed) override { ResetTo(LegacyStart(seed)); }

  // As in gym-pusht, the block is placed upright and then turned about its centre of gravity, and
  // one substep runs, which pushes a block that overlaps the agent or a wall.
  void ResetTo(std::span<const double> start) override {
    pusht::PushtState state;
    state.agent = {start[0], start[1]};
    // pymunk keeps the position of the centre of gravity; this order has the bits of its rounding
    const pusht::Point turned = pusht::Frame({0.0, 0.0, start[4]}).Rotated(kBlockCog);
    state.block = {(start[2] + kBlockCog.x) - turned.x, (start[3] + kBlockCog.y) - turned.y,
                   start[4]};
    physics_.SetState(state);
    physics_.Substep();
    target_.reset();
    coverage_ = 0.0;
  }

  Outcome Step(std::span<const double> action) override {
    target_ = pusht::Point{action[0], action[1]};
    physics_.StepTowards(*target_);
    coverage_ = pusht::Coverage(physics_.state().block);
    const bool is_success = coverage_ > kSuccessCoverage;
    return {std::clamp(coverage_ / kSuccessCoverage, 0.0, 1.0), is_success, is_success};
  }

  void Observe(std::span<std::byte* const> arrays, std::size_t row) override {
    const pusht::PushtState& now = physics_.state();
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      std::byte* const bytes = arrays[i] + row * spec_.obs[i].n_bytes;
      auto* const numbers = reinterpret_cast<double*>(bytes);
      switch (parts_[i]) {
        case Part::kState:
          std::ranges::copy(std::array{now.agent.x, now.agent.y, now.block.x, now.block.y,
                                       pusht::WrapAngle(now.block.angle)},
                            numbers);
          break;
        case Part::kEnvironmentState:
          std::ranges::copy(pusht::EnvironmentState(now.block), numbers);
          break;
        case Part::kAgentPos:
          std::ranges::copy(std::array{now.agent.x, now.agent.y}, numbers);
          break;
        case Part::kPixels: {
          thread_local pusht::PushtRenderer renderer;
          renderer.RenderObservation(
              now, {reinterpret_cast<std::uint8_t*>(bytes), spec_.obs[i].n_bytes});
          break;
        }
      }
    }
  }

  void WriteInfos(std::span<double> infos) const override {
    const pusht::PushtState& now = physics_.state();
    // gym-pusht divides the contact points of a step by 1,000, not by the ten substeps, and rounds
    // up: 1 if anything touched the block
    const double n_contacts = physics_.n_contact_points() > 0 ? 1.0 : 0.0;
    std::ranges::copy(
        std::array{now.agent.x, now.agent.y, now.agent_velocity.x, now.agent_velocity.y,
                   now.block.x, now.block.y, now.block.angle, n_contacts, coverage_},
        infos.begin());
  }

  void Render(RgbImage* frame) override {
    pusht::RenderFrame(physics_.state(), target_ ? &*target_ : nullptr, frame);
  }

 private:
  enum class Part { kState, kEnvironmentState, kAgentPos, kPixels };

  std::vector<Part> parts_;  // of an observation
  SimulationSpec spec_;
  pusht::PushtPhysics physics_;
  std::optional<pusht::Point> target_;  // of the latest step, for images
  double coverage_ = 0.0;               // 0 after a reset
};

}  // namespace
}  // namespace dp_bench::python

namespace nb = nanobind;
using namespace nb::literals;

NB_MODULE(_core, m) {
  using namespace dp_bench::python;
  m.doc() = "PushT of dp_bench.";
  BindBatch(m);
  m.attr("SUCCESS_COVERAGE") = kSuccessCoverage;
  m.def(
      "make_batch",
      [](const std::vector<std::string>& obs, const BatchOptions& options) {
        // a step takes less than a microsecond
        return std::make_unique<EnvBatch>([&] { return std::make_unique<PushtSimulation>(obs); },
                                          options, /*max_chunk=*/32);
      },
      "obs"_a, "options"_a,
      "`obs`: of state, environment_state, agent_pos and pixels. Seeds start as in "
      "diffusion_policy.");
}
