// Semi-implicit Euler on a damped point mass.
#include "point_mass_env.h"

#include <algorithm>
#include <cmath>

#include "dp_bench/config_keys.h"
#include "dp_bench/plugin.h"
#include "dp_bench/random.h"

namespace dp_bench::point_mass {
namespace {

constexpr double kControlHz = 10.0;
constexpr double kDamping = 1.0;        // [1/s]
constexpr double kGoalRadius = 0.1;     // [m]
constexpr double kRewardReach = 2.0;    // [m]
constexpr double kExpertDamping = 2.0;  // [N s/m]

/// Writes `values` as float32.
void Write(const std::array<double, 2>& values, std::span<float> out) {
  out[0] = static_cast<float>(values[0]);
  out[1] = static_cast<float>(values[1]);
}

/// Draws mass (blue) and goal (green) on white, [size_y, size_x, 3].
void Draw(const std::array<double, 2>& position, const std::array<double, 2>& goal, int size_x,
          int size_y, std::uint8_t* pixels) {
  for (int row = 0; row < size_y; ++row) {
    for (int column = 0; column < size_x; ++column, pixels += 3) {
      // the pixel's centre in the square
      const double x = (column + 0.5) / size_x * 2.0 - 1.0;
      const double y = (row + 0.5) / size_y * 2.0 - 1.0;
      const bool on_mass = std::hypot(x - position[0], y - position[1]) < kGoalRadius;
      const bool on_goal = std::hypot(x - goal[0], y - goal[1]) < kGoalRadius;
      pixels[0] = on_mass || on_goal ? 60 : 255;
      pixels[1] = on_mass ? 90 : on_goal ? 180 : 255;
      pixels[2] = on_mass ? 220 : on_goal ? 90 : 255;
    }
  }
}

}  // namespace

EnvSpec PointMassEnv::Describe(const Config& params) {
  EnvSpec spec;
  spec.max_steps = 100;
  int size = 0;
  const ConfigKeys keys(params);  // name, field with the default, range and meaning
  keys("image_size", &size, 0, 1024,
       "height and width of the image observation in pixels; 0 = no image");
  keys("max_steps", &spec.max_steps, 1, 1000000, "maximum number of steps of an episode");
  spec.shape_meta.obs = {{.name = "agent_pos", .shape = {2}}, {.name = "goal", .shape = {2}}};
  if (size > 0) {
    spec.shape_meta.obs.push_back(
        {.name = "image", .type = KeyType::kRgb, .shape = {3, size, size}, .dtype = DType::kUInt8});
  }
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  spec.action_low = {-1.0F, -1.0F};
  spec.action_high = {1.0F, 1.0F};
  spec.control_hz = kControlHz;
  spec.metrics = {{"distance", Aggregate::kLast}};
  // which of the optional functions it has
  spec.abilities = {.state_size = kStateSize, .has_expert = true};
  return spec;
}

PointMassEnv::PointMassEnv(const Config& params) : Env(Describe(params)) {}

void PointMassEnv::DoReset(std::uint64_t seed) {
  // all randomness of an episode comes from its seed, through the SDK's counter-based streams
  RandomStream random(seed, StreamId::kEnvStart);
  for (double& x : position_) x = 1.8 * random.UniformDouble() - 0.9;
  for (double& x : goal_) x = 1.8 * random.UniformDouble() - 0.9;
  velocity_ = {};
}

StepResult PointMassEnv::DoStep(std::span<const float> action) {
  // Env has checked the action: two finite numbers, in a running episode
  for (std::size_t i = 0; i < 2; ++i) {
    const double force = std::clamp(static_cast<double>(action[i]), -1.0, 1.0);
    velocity_[i] += (force - kDamping * velocity_[i]) / kControlHz;
    position_[i] = std::clamp(position_[i] + velocity_[i] / kControlHz, -1.0, 1.0);
  }

  // success ends the episode; the EnvRunner limits the number of steps
  const double distance = Distance();
  metrics_ = {distance};
  const bool is_at_goal = distance < kGoalRadius;
  return {.reward = is_at_goal ? 1.0 : std::clamp(1.0 - distance / kRewardReach, 0.0, 1.0),
          .terminated = is_at_goal,
          .success = is_at_goal,
          .metrics = metrics_};
}

void PointMassEnv::DoObserve(const ObsWriter& obs) {
  Write(position_, obs.Buffer<float>("agent_pos"));
  Write(goal_, obs.Buffer<float>("goal"));
  const std::vector<KeySpec>& keys = spec().shape_meta.obs;
  if (keys.size() == 3) {
    const int size = static_cast<int>(keys[2].shape[1]);
    Draw(position_, goal_, size, size, obs.Buffer<std::uint8_t>("image").data());
  }
}

void PointMassEnv::DoRender(RgbImage* frame) {
  Draw(position_, goal_, frame->width, frame->height, frame->pixels.data());
}

void PointMassEnv::DoGetState(std::span<double> state) const {
  const std::array<double, kStateSize> values = {position_[0], position_[1], velocity_[0],
                                                 velocity_[1], goal_[0],     goal_[1]};
  std::copy(values.begin(), values.end(), state.begin());
}

void PointMassEnv::DoSetState(std::span<const double> state) {
  position_ = {state[0], state[1]};
  velocity_ = {state[2], state[3]};
  goal_ = {state[4], state[5]};
}

void PointMassEnv::DoBeginExpert(std::uint64_t seed) {
  // experts that differ slightly give varied demonstrations; the seed also decides this
  RandomStream random(seed, StreamId::kPolicyNoise);
  stiffness_ = 1.5 + random.UniformDouble();
}

void PointMassEnv::DoAct(std::span<float> action) {
  // the expert reads the true state without changing it; its actions are within the action bounds
  for (std::size_t i = 0; i < 2; ++i) {
    const double force = stiffness_ * (goal_[i] - position_[i]) - kExpertDamping * velocity_[i];
    action[i] = static_cast<float>(std::clamp(force, -1.0, 1.0));
  }
}

double PointMassEnv::Distance() const {
  return std::hypot(position_[0] - goal_[0], position_[1] - goal_[1]);
}

}  // namespace dp_bench::point_mass

// the library's only export
DPB_EXPORT_PLUGIN(dp_bench::Env, "point_mass", "1.0.0",
                  &dp_bench::point_mass::PointMassEnv::Describe,
                  &dp_bench::CreateInstance<dp_bench::Env, dp_bench::point_mass::PointMassEnv>)
