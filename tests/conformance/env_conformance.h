// Playing an env for the conformance suite: observation buffers with canaries, traces as bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/env_abilities.h"
#include "dp_bench/random.h"

namespace dp_bench::conformance {

inline constexpr int kSteps = 60;
inline constexpr int kStepsPerObservation = 3;  // image observations take most of the time
inline constexpr int kStepsPerPicture = 15;
inline constexpr std::uint64_t kSeed = 100000;

/// The params of the command line with the members of `changes`; null removes one.
Config ParamsWith(const nlohmann::json& changes);

/// The plugin of the command line: its spec, and a new instance.
EnvSpec DescribeEnv(const Config& params);
std::unique_ptr<Env> MakeEnv(const Config& params = ParamsWith({}));

/// Heap allocations of the whole process so far.
long NumAllocations();

/// Observation buffers for one env, with a canary after each.
class ObsMemory {
 public:
  explicit ObsMemory(const EnvSpec& spec, std::byte fill = std::byte{0})
      : keys_(spec.shape_meta.obs) {
    for (const KeySpec& key : spec.shape_meta.obs) {
      memory_.emplace_back(key.ByteSize() + kCanarySize, fill);
      std::fill(memory_.back().end() - kCanarySize, memory_.back().end(), kCanary);
    }
    for (std::vector<std::byte>& m : memory_) views_.emplace_back(m.data(), m.size() - kCanarySize);
  }

  ObsWriter writer() const { return {keys_, views_}; }

  bool CanariesAlive() const {
    return std::all_of(memory_.begin(), memory_.end(), [](const std::vector<std::byte>& m) {
      return std::all_of(m.end() - kCanarySize, m.end(), [](std::byte b) { return b == kCanary; });
    });
  }

  bool operator==(const ObsMemory& other) const { return memory_ == other.memory_; }

 private:
  static constexpr std::ptrdiff_t kCanarySize = 16;
  static constexpr std::byte kCanary{0xA5};

  std::vector<KeySpec> keys_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<std::span<std::byte>> views_;
};

/// The actions of an episode, uniform within the bounds. Each is held for five steps, so that the
/// env makes progress.
inline std::vector<float> ActionAt(const EnvSpec& spec, std::uint64_t seed, int step) {
  RandomStream random(seed, StreamId::kPolicyNoise, static_cast<std::uint64_t>(step / 5));
  std::vector<float> action(spec.action_low.size());
  for (std::size_t i = 0; i < action.size(); ++i) {
    action[i] = spec.action_low[i] + random.Uniform() * (spec.action_high[i] - spec.action_low[i]);
  }
  return action;
}

/// Everything visible during a part of an episode, as bytes.
struct Trace {
  std::vector<std::byte> bytes;
  int n_steps = 0;

  void Add(const void* data, std::size_t size) {
    const auto* const first = static_cast<const std::byte*>(data);
    bytes.insert(bytes.end(), first, first + size);
  }
  bool operator==(const Trace&) const = default;
};

/// The visible data after `step` steps. Includes a picture only at some steps, because drawing may
/// be slow.
inline void AddView(Env& env, int step, Trace& trace) {
  if (step % kStepsPerObservation != 0 && step != kSteps) return;
  const ObsMemory obs(env.spec());
  env.Observe(obs.writer());
  for (const std::span<std::byte> view : obs.writer().buffers())
    trace.Add(view.data(), view.size());
  if (step % kStepsPerPicture != 0) return;
  RgbImage frame(40, 30);
  env.Render(&frame);
  trace.Add(frame.pixels.data(), frame.pixels.size());
}

/// Plays steps [begin, end) of the actions of `seed` from the current state.
inline Trace Play(Env& env, std::uint64_t seed, int begin = 0, int end = kSteps) {
  Trace trace;
  for (int step = begin; step < end; ++step) {
    const StepResult result = env.Step(ActionAt(env.spec(), seed, step));
    trace.Add(&result.reward, sizeof(result.reward));
    trace.Add(&result.terminated, sizeof(result.terminated));
    trace.Add(&result.success, sizeof(result.success));
    trace.Add(result.metrics.data(), result.metrics.size_bytes());
    AddView(env, step + 1, trace);
    ++trace.n_steps;
    if (result.terminated) break;
  }
  return trace;
}

inline Trace PlayEpisode(Env& env, std::uint64_t seed) {
  env.Reset(seed);
  Trace start;
  AddView(env, 0, start);
  const Trace rest = Play(env, seed);
  start.Add(rest.bytes.data(), rest.bytes.size());
  start.n_steps = rest.n_steps;
  return start;
}

}  // namespace dp_bench::conformance
