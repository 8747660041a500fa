// A point that must reach a goal. Replace it by your own simulation; the contract is in
// dp_bench/env.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "dp_bench/env.h"
#include "dp_bench/env_abilities.h"
#include "dp_bench/error.h"
#include "dp_bench/plugin.h"
#include "dp_bench/random.h"

namespace {

using dp_bench::Error;
using dp_bench::ErrorCode;

constexpr double kGoalRadius = 0.1;

class MyEnv final : public dp_bench::Env, public dp_bench::Expert {
 public:
  // What the env offers. Read every param here, with its default and meaning.
  static dp_bench::EnvSpec Describe(const dp_bench::Config& params) {
    dp_bench::EnvSpec spec;
    spec.shape_meta.obs = {{.name = "goal", .shape = {2}},
                           {.name = "position", .shape = {2}}};  // alphabetical
    spec.shape_meta.action = {.name = "action", .shape = {2}};
    spec.action_low = {-1.0F, -1.0F};  // velocity [1/s]
    spec.action_high = {1.0F, 1.0F};
    spec.control_hz = 10.0;
    spec.max_steps = static_cast<int>(params.GetInRange("max_steps", std::int64_t{60}, 1, 10000,
                                                        "maximum number of steps of an episode"));
    spec.metrics = {{"distance", dp_bench::Aggregate::kLast}};
    spec.abilities.has_expert =
        true;  // makes the demonstrations; without one, a data set is needed
    return spec;
  }

  explicit MyEnv(const dp_bench::Config& params) : spec_(Describe(params)) {}

  const dp_bench::EnvSpec& spec() const override { return spec_; }

  // All randomness of an episode comes from its seed.
  void Reset(std::uint64_t seed) override {
    dp_bench::RandomStream random(seed, dp_bench::StreamId::kEnvStart);
    for (double& x : position_) x = 2.0 * random.UniformDouble() - 1.0;
    for (double& x : goal_) x = 2.0 * random.UniformDouble() - 1.0;
    has_begun_ = true;
    is_over_ = false;
  }

  // A refused action changes nothing, and nothing here allocates memory.
  dp_bench::StepResult Step(std::span<const float> action) override {
    RequireBegun();
    Require(!is_over_, ErrorCode::kEnv, "the episode is over; call Reset");
    RequireTwo(action.size());
    Require(std::isfinite(action[0]) && std::isfinite(action[1]), ErrorCode::kNumeric,
            "expected a finite action, found NaN or Inf");
    for (std::size_t i = 0; i < 2; ++i) {
      position_[i] += std::clamp<double>(action[i], -1.0, 1.0) / spec_.control_hz;
    }
    distance_ = {std::hypot(position_[0] - goal_[0], position_[1] - goal_[1])};
    is_over_ = distance_[0] < kGoalRadius;
    return {.reward = is_over_ ? 1.0 : std::max(0.0, 1.0 - distance_[0] / 3.0),
            .terminated = is_over_,
            .success = is_over_,
            .metrics = distance_};
  }

  void Observe(const dp_bench::ObsWriter& obs) override {
    RequireBegun();
    std::ranges::copy(goal_, obs.Buffer<float>("goal").begin());
    std::ranges::copy(position_, obs.Buffer<float>("position").begin());
  }

  void Render(dp_bench::RgbImage* frame) override {
    RequireBegun();
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

  dp_bench::Expert* expert() override { return this; }
  void Begin(std::uint64_t /*seed*/) override { RequireBegun(); }
  void Act(std::span<float> action) override {
    RequireBegun();
    RequireTwo(action.size());
    for (std::size_t i = 0; i < 2; ++i) {
      action[i] = static_cast<float>(std::clamp(3.0 * (goal_[i] - position_[i]), -1.0, 1.0));
    }
  }

 private:
  static void Require(bool holds, ErrorCode code, const char* message) {
    if (!holds) throw Error(code, message);
  }
  static void RequireTwo(std::size_t n) {
    if (n == 2) return;
    throw Error(ErrorCode::kShape, "expected an action of 2 numbers, found " + std::to_string(n));
  }
  void RequireBegun() const {
    Require(has_begun_, ErrorCode::kEnv, "the episode has not begun; call Reset");
  }

  dp_bench::EnvSpec spec_;
  std::array<double, 2> position_ = {};
  std::array<double, 2> goal_ = {};
  std::array<double, 1> distance_ = {};  // StepResult::metrics points here
  bool has_begun_ = false;
  bool is_over_ = false;
};

}  // namespace

DPB_EXPORT_PLUGIN(dp_bench::Env, "my_env", "0.1.0", &MyEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, MyEnv>)
