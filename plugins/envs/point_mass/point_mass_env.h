// A template for new envs, and a cheap env for tests of the harness: a mass in a square is pushed
// onto a goal. The comments say what each part is for; docs/writing_a_plugin.md has the rest.
#pragma once

#include <array>
#include <cstdint>

#include "dp_bench/env.h"

namespace dp_bench::point_mass {

/// The square is [-1, 1] x [-1, 1] m. Actions are forces [N] on a mass of 1 kg, each component
/// clamped to [-1, 1]. Reward is 1 at the goal and falls to 0 at a distance of 2 m. Params:
///   max_steps   100
///   image_size  0; when positive, the observations include `image` [3, image_size, image_size]
class PointMassEnv final : public Env {
 public:
  /// What the env offers with these params. Reads every param; the host rejects the others.
  static EnvSpec Describe(const Config& params);

  explicit PointMassEnv(const Config& params);

 private:
  static constexpr std::size_t kStateSize = 6;

  void DoReset(std::uint64_t seed) override;
  StepResult DoStep(std::span<const float> action) override;
  void DoObserve(const ObsWriter& obs) override;
  void DoRender(RgbImage* frame) override;

  // A state is optional: leave these two out, with EnvAbilities::state_size, if it cannot be
  // restored bit for bit.
  void DoGetState(std::span<double> state) const override;
  void DoSetState(std::span<const double> state) override;

  // An expert is optional too. With one, `dp_bench collect` makes the demonstrations, and the task
  // needs no dataset. This one is a PD controller.
  void DoBeginExpert(std::uint64_t seed) override;
  void DoAct(std::span<float> action) override;

  double Distance() const;

  std::array<double, 2> position_ = {};
  std::array<double, 2> velocity_ = {};
  std::array<double, 2> goal_ = {};
  std::array<double, 1> metrics_ = {};  // StepResult::metrics points here
  double stiffness_ = 0.0;              // of the expert [N/m]
};

}  // namespace dp_bench::point_mass
