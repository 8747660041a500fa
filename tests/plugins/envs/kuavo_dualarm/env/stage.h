// An env whose objects the tests move through its state.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include "kuavo_env.h"
#include "support/env_state.h"

namespace dp_bench::kuavo_dualarm {

inline KuavoEnv MakeEnv(const std::string& json = "{}") { return KuavoEnv(Config::FromJson(json)); }

/// The action that stays at home with open grippers.
inline std::vector<float> HomeAction() {
  std::vector<float> action(kActionDim, 0.0F);
  for (const Side side : kSides) {
    std::transform(kHome[Index(side)].begin(), kHome[Index(side)].end(),
                   action.begin() + static_cast<std::ptrdiff_t>(Index(side) * kSideDim),
                   [](double angle) { return static_cast<float>(angle); });
  }
  return action;
}

/// MuJoCo's state begins with the time, then qpos, then qvel.
inline std::size_t QposInState(int qpos) { return 1 + static_cast<std::size_t>(qpos); }
inline std::size_t QvelInState(const KuavoEnv& env, int dof) {
  return 1 + static_cast<std::size_t>(env.model().model()->nq + dof);
}

/// Moves a free body to a place, upright and at rest.
inline void Teleport(KuavoEnv& env, const std::string& body,
                     const std::array<double, 3>& position) {
  std::vector<double> state = StateOf(env);
  const std::array<double, 7> pose = {position[0], position[1], position[2], 1, 0, 0, 0};
  const std::string joint = body + "_joint";
  std::copy(pose.begin(), pose.end(), &state[QposInState(env.model().QposOf(joint))]);
  std::fill_n(&state[QvelInState(env, env.model().DofOf(joint))], 6, 0.0);
  env.SetState(state);
}

inline std::array<double, 3> PositionOf(const KuavoEnv& env, const std::string& body) {
  const double* const position = env.data().xpos + 3 * env.model().Body(body);
  return {position[0], position[1], position[2]};
}

/// Stays at home for some steps, or until the episode ends; returns the latest result.
inline StepResult StayHome(KuavoEnv& env, int steps) {
  StepResult result;
  for (int step = 0; step < steps && !result.terminated; ++step) result = env.Step(HomeAction());
  return result;
}

/// The buffers of one observation, by the env's keys.
class Observation {
 public:
  explicit Observation(KuavoEnv& env) {
    for (const KeySpec& key : env.spec().shape_meta.obs) {
      names_.push_back(key.name);
      memory_.emplace_back(key.ByteSize());
    }
    std::vector<std::span<std::byte>> views(memory_.begin(), memory_.end());
    env.Observe({env.spec().shape_meta.obs, views});
  }

  template <class T>
  std::span<const T> Get(const std::string& name) const {
    const auto found = std::find(names_.begin(), names_.end(), name);
    EXPECT_NE(found, names_.end()) << name;
    const std::vector<std::byte>& bytes = memory_[static_cast<std::size_t>(found - names_.begin())];
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> memory_;
};

}  // namespace dp_bench::kuavo_dualarm
