// The expert and the dynamics: semi-implicit Euler on a damped point mass, as in the env.
#include "synthetic_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dp_bench/random.h"

namespace dp_bench::synthetic {
namespace {

constexpr double kControlHz = 10.0;
constexpr double kDamping = 1.0;  // [1/s]
constexpr double kGain = 1.5;     // [N/m]
constexpr double kRadius = 0.1;   // of mass and goal [m]

std::array<float, 2> ToFloat(const std::array<double, 2>& values) {
  return {static_cast<float>(values[0]), static_cast<float>(values[1])};
}

/// Draws mass (blue) and goal (green) on white as the env does, [size, size, 3].
void Draw(const std::array<float, 2>& position, const std::array<float, 2>& goal, std::int64_t size,
          std::byte* pixels) {
  const auto is_near = [](const std::array<float, 2>& p, double x, double y) {
    return std::hypot(x - static_cast<double>(p[0]), y - static_cast<double>(p[1])) < kRadius;
  };
  const auto n = static_cast<double>(size);
  for (std::int64_t row = 0; row < size; ++row) {
    for (std::int64_t column = 0; column < size; ++column, pixels += 3) {
      // the pixel's centre in the square
      const double x = (static_cast<double>(column) + 0.5) / n * 2.0 - 1.0;
      const double y = (static_cast<double>(row) + 0.5) / n * 2.0 - 1.0;
      const bool on_mass = is_near(position, x, y);
      const bool on_goal = is_near(goal, x, y);
      pixels[0] = std::byte(on_mass || on_goal ? 60 : 255);
      pixels[1] = std::byte(on_mass ? 90 : on_goal ? 180 : 255);
      pixels[2] = std::byte(on_mass ? 220 : on_goal ? 90 : 255);
    }
  }
}

}  // namespace

SyntheticDataset::SyntheticDataset(const Config& params) {
  const std::int64_t n_episodes = params.GetInRange("n_episodes", std::int64_t{50}, std::int64_t{1},
                                                    std::int64_t{100000}, "number of episodes");
  const std::int64_t length = params.GetInRange("episode_length", std::int64_t{40}, std::int64_t{1},
                                                std::int64_t{10000}, "steps of each episode");
  const auto seed = params.Get<std::uint64_t>("seed", 0, "decides starts and goals");
  const std::int64_t size =
      params.GetInRange("image_size", std::int64_t{0}, std::int64_t{0}, std::int64_t{1024},
                        "height and width of the image key in pixels; 0 = no image");

  // keys in alphabetical order, under the names that shape_meta uses; "action" is one of them
  spec_.fps = kControlHz;
  spec_.keys = {{.name = "action", .shape = {2}},
                {.name = "agent_pos", .shape = {2}},
                {.name = "goal", .shape = {2}}};
  if (size > 0) {
    // the shape is written [C, H, W] as usual, but the bytes are stored [H, W, C]
    spec_.keys.push_back(
        {.name = "image", .type = KeyType::kRgb, .shape = {3, size, size}, .dtype = DType::kUInt8});
  }
  for (std::int64_t i = 0; i < n_episodes; ++i) AppendEpisode(seed, i, length);
}

void SyntheticDataset::AppendEpisode(std::uint64_t seed, std::int64_t episode,
                                     std::int64_t length) {
  // start and goal come from the SDK's counter-based streams, so they depend only on seed and
  // episode
  RandomStream random(seed, StreamId::kEnvStart, static_cast<std::uint64_t>(episode));
  std::array<double, 2> position = {};
  std::array<double, 2> velocity = {};
  std::array<double, 2> goal = {};
  for (double& x : position) x = 1.8 * random.UniformDouble() - 0.9;
  for (double& x : goal) x = 1.8 * random.UniformDouble() - 0.9;

  for (std::int64_t i = 0; i < length; ++i) {
    std::array<double, 2> action = {};
    for (std::size_t d = 0; d < 2; ++d) {
      action[d] = std::clamp(kGain * (goal[d] - position[d]), -1.0, 1.0);
    }
    // an action and the observation that it responds to belong to the same step
    steps_.push_back({ToFloat(action), ToFloat(position), ToFloat(goal)});
    for (std::size_t d = 0; d < 2; ++d) {
      velocity[d] += (action[d] - kDamping * velocity[d]) / kControlHz;
      position[d] = std::clamp(position[d] + velocity[d] / kControlHz, -1.0, 1.0);
    }
  }
  episode_ends_.push_back(static_cast<std::int64_t>(steps_.size()));
}

void SyntheticDataset::DoRead(int key, std::int64_t begin, std::int64_t end,
                              std::span<std::byte> out) const {
  const KeySpec& spec = spec_.keys[static_cast<std::size_t>(key)];
  const std::size_t key_bytes = spec.ByteSize();
  std::byte* target = out.data();
  for (std::int64_t i = begin; i < end; ++i, target += key_bytes) {
    const Step& step = steps_[static_cast<std::size_t>(i)];
    if (spec.name == "action") std::memcpy(target, step.action.data(), key_bytes);
    if (spec.name == "agent_pos") std::memcpy(target, step.agent_pos.data(), key_bytes);
    if (spec.name == "goal") std::memcpy(target, step.goal.data(), key_bytes);
    if (spec.name == "image") Draw(step.agent_pos, step.goal, spec.shape[1], target);
  }
}

}  // namespace dp_bench::synthetic
