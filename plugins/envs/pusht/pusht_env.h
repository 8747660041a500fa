// PushT as an Env: push the T onto the goal (Chi et al. 2023, Diffusion Policy). Episodes start and
// score as in diffusion_policy's PushTEnv and gym-pusht, so that scores can be compared.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/env_abilities.h"
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

/// The state that PushtEnv::GetState wrote into `numbers`, [PushtEnv::kStateSize].
PushtState StateFrom(std::span<const double> numbers);

struct PushtParams {
  std::vector<std::string> obs;  // sorted; default agent_pos, keypoint
  int max_steps = 300;
  double success_threshold = 0.95;  // coverage; reward is coverage / success_threshold in [0, 1]
  bool legacy = true;               // see StartState
  PerturbationParams perturb;

  static PushtParams FromConfig(const Config& config);
};

/// Actions are target positions of the agent [px].
class PushtEnv final : public Env, public StateAccess, public PointerControl, public PictureMarks {
 public:
  static constexpr std::size_t kStateSize = 10;
  static constexpr std::size_t kMaxStateSize = kStateSize + 2;  // with the param perturb
  static constexpr std::size_t kNumKeypoints = 9;

  static EnvSpec Describe(const Config& config);

  explicit PushtEnv(const Config& config);

  const EnvSpec& spec() const override { return spec_; }
  void Reset(std::uint64_t seed) override;
  StepResult Step(std::span<const float> action) override;
  void Observe(const ObsWriter& obs) override;
  void Render(RgbImage* frame) override;
  StateAccess* state_access() override { return this; }
  Expert* expert() override { return &expert_; }

  /// Agent position and velocity, block pose (position of its origin, angle) and block velocity;
  /// with perturb also the upper and lower half of the seed.
  void GetState(std::span<double> state) const override;
  void SetState(std::span<const double> state) override;

  /// The agent moves towards the pointer.
  PointerControl* pointer_control() override { return this; }
  void PointerAction(double x, double y, std::span<float> action) const override;

  /// One mark: the agent. For an action: its target.
  PictureMarks* picture_marks() override { return this; }
  void StateMarks(int width, int height, std::span<float> xy) const override;
  void ActionMarks(std::span<const float> action, int width, int height,
                   std::span<float> xy) const override;

 private:
  void RequireStarted(const char* what) const;
  void BeginEpisode(std::uint64_t seed);
  std::size_t state_size() const { return spec_.abilities.state_size; }
  void WriteImage(std::span<std::uint8_t> image);
  void WriteKeypoints(std::span<float> keypoints) const;

  PushtParams params_;
  EnvSpec spec_;
  PushtPhysics physics_;
  PushtRenderer renderer_;
  PushtExpert expert_;
  std::optional<Point> target_;  // of the latest step, for pictures
  std::array<double, 2> metrics_ = {};
  std::uint64_t seed_ = 0;
  Perturbation perturbation_;  // of the episode
  bool started_ = false;
  bool terminated_ = false;
};

}  // namespace dp_bench::pusht
