// A task for diagnoses: a point that follows the commanded position, demonstrations of it in
// memory, and their env. Both allow planted faults.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "dp_bench/dataset.h"
#include "dp_bench/env.h"
#include "dp_bench/random.h"

namespace dp_bench::diagnose {

inline constexpr int kImageSize = 16;

using Point = std::array<double, 2>;

/// A reddish point on blue, [16, 16, 3].
inline std::vector<std::uint8_t> DrawPoint(const Point& point) {
  std::vector<std::uint8_t> image;
  for (int row = 0; row < kImageSize; ++row) {
    for (int column = 0; column < kImageSize; ++column) {
      const double x = (column + 0.5) / kImageSize * 2.0 - 1.0;
      const double y = (row + 0.5) / kImageSize * 2.0 - 1.0;
      const bool is_on = std::hypot(x - point[0], y - point[1]) < 0.3;
      for (const int value : is_on ? std::array{220, 60, 20} : std::array{20, 60, 160}) {
        image.push_back(static_cast<std::uint8_t>(value));
      }
    }
  }
  return image;
}

inline Point RandomPoint(RandomStream& random) {
  return {1.8 * random.UniformDouble() - 0.9, 1.8 * random.UniformDouble() - 0.9};
}

/// The next position: a step of at most 0.15 towards the goal.
inline Point Command(const Point& position, const Point& goal) {
  const double distance = std::hypot(goal[0] - position[0], goal[1] - position[1]);
  const double part = distance > 0.0 ? std::min(1.0, 0.15 / distance) : 0.0;
  return {position[0] + part * (goal[0] - position[0]),
          position[1] + part * (goal[1] - position[1])};
}

inline Point Sum(const Point& a, const Point& b) { return {a[0] + b[0], a[1] + b[1]}; }

inline void Follow(const Point& command, Point* position) {
  for (std::size_t i = 0; i < 2; ++i) (*position)[i] += 0.6 * (command[i] - (*position)[i]);
}

/// The arrays may be changed freely; the steps of all episodes are concatenated.
class ReachDataset : public Dataset {
 public:
  explicit ReachDataset(bool has_images, int n_episodes = 60, int n_steps = 30) {
    spec_.fps = 10.0;
    spec_.keys = {{.name = "action", .shape = {2}},
                  {.name = "agent_pos", .shape = {2}},
                  {.name = "goal", .shape = {2}}};
    if (has_images) {
      spec_.keys.push_back({.name = "image",
                            .type = KeyType::kRgb,
                            .shape = {3, kImageSize, kImageSize},
                            .dtype = DType::kUInt8});
    }
    RandomStream random(11, StreamId::kEnvStart);
    for (int i = 0; i < n_episodes; ++i) AddEpisode(random, n_steps);
  }

  const DatasetSpec& spec() const override { return spec_; }
  std::span<const std::int64_t> episode_ends() const override { return ends; }

  void DoRead(int key, std::int64_t begin, std::int64_t end,
              std::span<std::byte> out) const override {
    const auto size = static_cast<std::size_t>(end - begin);
    if (key == 3) {
      constexpr std::size_t kBytes = kImageSize * kImageSize * 3;
      std::memcpy(out.data(), image.data() + static_cast<std::size_t>(begin) * kBytes,
                  size * kBytes);
      return;
    }
    const std::vector<float>& values = key == 0 ? action : key == 1 ? agent_pos : goal;
    std::memcpy(out.data(), values.data() + begin * 2, size * 2 * sizeof(float));
  }

  std::int64_t n_steps() const { return ends.back(); }
  void set_fps(double fps) { spec_.fps = fps; }

  std::vector<float> action;
  std::vector<float> agent_pos;
  std::vector<float> goal;
  std::vector<std::uint8_t> image;
  std::vector<std::int64_t> ends;

 private:
  static void Append(const Point& point, std::vector<float>* values) {
    for (const double x : point) values->push_back(static_cast<float>(x));
  }

  void AddEpisode(RandomStream& random, int n_steps) {
    Point position = RandomPoint(random);
    Point target = RandomPoint(random);
    for (int t = 0; t < n_steps; ++t) {
      if (t % 15 == 14) target = RandomPoint(random);  // never stands still at the goal
      const Point command = Command(position, target);
      Append(position, &agent_pos);
      Append(target, &goal);
      Append(command, &action);
      if (spec_.keys.size() > 3) {
        const std::vector<std::uint8_t> drawn = DrawPoint(position);
        image.insert(image.end(), drawn.begin(), drawn.end());
      }
      Follow(command, &position);
    }
    ends.push_back(std::ssize(action) / 2);
  }

  DatasetSpec spec_;
};

/// Possible faults of the env.
struct ReachEnvParams {
  bool has_images = false;
  Point start_offset = {};     // offset of starts and goals from those of the demonstrations
  Point observed_offset = {};  // offset of the observed from the true position
  Point wind = {};             // per step
};

class ReachEnv : public Env {
 public:
  explicit ReachEnv(const ReachEnvParams& params) : Env(Describe(params)), params_(params) {}

 private:
  static EnvSpec Describe(const ReachEnvParams& params) {
    EnvSpec spec;
    const ReachDataset same(params.has_images, 1, 1);
    for (const KeySpec& key : same.spec().keys) {
      if (key.name != "action") spec.shape_meta.obs.push_back(key);
    }
    spec.shape_meta.action = same.spec().keys[0];
    spec.action_low = {-1.0F, -1.0F};
    spec.action_high = {1.0F, 1.0F};
    spec.control_hz = 10.0;
    spec.max_steps = 40;
    return spec;
  }

  void DoReset(std::uint64_t seed) override {
    RandomStream random(seed, StreamId::kEnvStart);
    position_ = Sum(RandomPoint(random), params_.start_offset);
    goal_ = Sum(RandomPoint(random), params_.start_offset);
  }

  StepResult DoStep(std::span<const float> action) override {
    Follow({action[0], action[1]}, &position_);
    position_ = Sum(position_, params_.wind);
    return {};
  }

  void DoObserve(const ObsWriter& obs) override {
    std::ranges::copy(Sum(position_, params_.observed_offset),
                      obs.Buffer<float>("agent_pos").begin());
    std::ranges::copy(goal_, obs.Buffer<float>("goal").begin());
    if (params_.has_images) {
      std::ranges::copy(DrawPoint(position_), obs.Buffer<std::uint8_t>("image").begin());
    }
  }

  void DoRender(RgbImage* /*frame*/) override {}

  ReachEnvParams params_;
  Point position_ = {};
  Point goal_ = {};
};

}  // namespace dp_bench::diagnose
