// PushT as an Env: push the T onto the goal (Chi et al. 2023, Diffusion Policy). Episodes start and
// score as in diffusion_policy's PushTEnv and gym-pusht, so that scores can be compared.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "motion.h"
#include "perturbation.h"
#include "pusht_expert.h"
#include "pusht_physics.h"
#include "pusht_render.h"

namespace dp_bench::pusht {

/// The start of an episode: numpy's RandomState(seed) draws agent and block as the peers do.
/// `legacy_order` sets the block's position before its angle. The turn is about the centre of
/// gravity, so it moves the block's origin; upstream's evaluation starts that way (`legacy_test:
/// True`).
PushtState StartState(std::uint64_t seed, bool legacy_order);

struct PushtParams {
  std::vector<std::string> obs = {"agent_pos", "keypoint"};  // sorted
  int max_steps = 300;
  double success_threshold = 0.95;  // coverage; reward is coverage / success_threshold in [0, 1]
  bool legacy = true;               // see StartState
  PerturbationParams perturb;
  MotionParams motion;

  bool has_draws() const { return perturb.is_given || motion.is_given(); }

  static PushtParams FromConfig(const Config& config);
};

/// Actions are target positions of the agent [px].
class PushtEnv final : public Env {
 public:
  static constexpr std::size_t kStateSize = 10;
  static constexpr std::size_t kSeedSize = 2;  // behind that, if anything is drawn after the start
  static constexpr std::size_t kMotionSize = WorldMotion::kStateSize + 1;  // behind that, if any
  static constexpr std::size_t kNumKeypoints = 9;

  static EnvSpec Describe(const Config& config);

  explicit PushtEnv(const Config& config);

 private:
  void DoReset(std::uint64_t seed) override;
  StepResult DoStep(std::span<const float> action) override;
  void DoObserve(const ObsWriter& obs) override;
  void DoRender(RgbImage* frame) override;

  // Agent position and velocity, block pose (position of its origin, angle) and block velocity;
  // with perturb or motion also the upper and lower half of the seed; with motion also its state
  // and for how many steps the agent has followed the goal.
  void DoGetState(std::span<double> state) const override;
  void DoSetState(std::span<const double> state) override;

  void DoBeginExpert(std::uint64_t seed) override { expert_.Begin(seed); }
  void DoAct(std::span<float> action) override;

  // The agent moves towards the pointer.
  void DoPointerAction(double x, double y, std::span<float> action) const override;

  // One mark: the agent. For an action: its target.
  void DoMarks(std::span<const float> action, int width, int height,
               std::span<float> xy) const override;

  void BeginEpisode(std::uint64_t seed);
  StepResult ScoreBlock();
  StepResult ScoreFollowing();
  Goal VisibleGoal() const {
    return {motion_.now().goal, params_.motion.is_following ? params_.motion.follow_radius : 0.0};
  }

  const PushtParams params_;
  PushtPhysics physics_;
  PushtRenderer renderer_;
  PushtExpert expert_;
  std::optional<Point> target_;  // of the latest step, for images
  std::array<double, 2> metrics_ = {};
  std::uint64_t seed_ = 0;
  Perturbation perturbation_;  // of the episode
  WorldMotion motion_;
  int n_held_ = 0;  // steps on end on which the agent was on the goal
};

}  // namespace dp_bench::pusht
