// A point that must reach a goal. Replace it by your own simulation; the contract is in
// dp_bench/env.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "dp_bench/config_keys.h"
#include "dp_bench/env.h"
#include "dp_bench/plugin.h"
#include "dp_bench/random.h"

namespace {

constexpr double kGoalRadius = 0.1;

class MyEnv final : public dp_bench::Env {
 public:
  // What the env offers. Read every param here: its field has the default.
  static dp_bench::EnvSpec Describe(const dp_bench::Config& params) {
    dp_bench::EnvSpec spec;
    spec.max_steps = 60;
    const dp_bench::ConfigKeys keys(params);
    keys("max_steps", &spec.max_steps, 1, 10000, "maximum number of steps of an episode");
    spec.shape_meta.obs = {{.name = "position", .shape = {2}}, {.name = "goal", .shape = {2}}};
    spec.shape_meta.action = {.name = "action", .shape = {2}};
    spec.action_low = {-1.0F, -1.0F};  // velocity [1/s]
    spec.action_high = {1.0F, 1.0F};
    spec.control_hz = 10.0;
    spec.metrics = {{"distance", dp_bench::Aggregate::kLast}};
    // it makes the demonstrations; without one, a dataset is needed
    spec.abilities.has_expert = true;
    return spec;
  }

  explicit MyEnv(const dp_bench::Config& params) : Env(Describe(params)) {}

 private:
  // All randomness of an episode comes from its seed.
  void DoReset(std::uint64_t seed) override {
    dp_bench::RandomStream random(seed, dp_bench::StreamId::kEnvStart);
    for (double& x : position_) x = 2.0 * random.UniformDouble() - 1.0;
    for (double& x : goal_) x = 2.0 * random.UniformDouble() - 1.0;
  }

  // The action is [2] and finite, and the episode is not over: Env has checked it. Nothing here
  // allocates memory.
  dp_bench::StepResult DoStep(std::span<const float> action) override {
    for (std::size_t i = 0; i < 2; ++i) {
      position_[i] += std::clamp<double>(action[i], -1.0, 1.0) / spec().control_hz;
    }
    distance_ = {std::hypot(position_[0] - goal_[0], position_[1] - goal_[1])};
    const bool is_over = distance_[0] < kGoalRadius;
    return {.reward = is_over ? 1.0 : std::max(0.0, 1.0 - distance_[0] / 3.0),
            .terminated = is_over,
            .success = is_over,
            .metrics = distance_};
  }

  void DoObserve(const dp_bench::ObsWriter& obs) override {
    std::ranges::copy(position_, obs.Buffer<float>("position").begin());
    std::ranges::copy(goal_, obs.Buffer<float>("goal").begin());
  }

  void DoRender(dp_bench::RgbImage* frame) override {
    std::uint8_t* pixel = frame->pixels.data();
    for (int row = 0; row < frame->height; ++row) {
      for (int column = 0; column < frame->width; ++column, pixel += 3) {
        const double x = 3.0 * (column + 0.5) / frame->width - 1.5;
        const double y = 3.0 * (row + 0.5) / frame->height - 1.5;
        const bool on_point = std::hypot(x - position_[0], y - position_[1]) < kGoalRadius;
        const bool on_goal = std::hypot(x - goal_[0], y - goal_[1]) < kGoalRadius;
        pixel[0] = on_point || on_goal ? 60 : 255;
        pixel[1] = on_point ? 90 : on_goal ? 180 : 255;
        pixel[2] = on_point ? 220 : on_goal ? 90 : 255;
      }
    }
  }

  // of the expert
  void DoAct(std::span<float> action) override {
    for (std::size_t i = 0; i < 2; ++i) {
      action[i] = static_cast<float>(std::clamp(3.0 * (goal_[i] - position_[i]), -1.0, 1.0));
    }
  }

  std::array<double, 2> position_ = {};
  std::array<double, 2> goal_ = {};
  std::array<double, 1> distance_ = {};  // StepResult::metrics points here
};

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Env, "my_env", "0.1.0", &MyEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, MyEnv>)
