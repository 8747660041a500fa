// Playing an env for the conformance suite: observation buffers with canaries, traces as bytes.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/random.h"

namespace dp_bench::conformance {

inline constexpr int kSteps = 60;
inline constexpr int kStepsPerObservation = 3;  // image observations take most of the time
inline constexpr int kStepsPerImage = 30;
inline constexpr std::uint64_t kSeed = 100000;

/// The params of the command line with the members of `changes`; null removes one.
Config ParamsWith(const nlohmann::json& changes);

/// The plugin of the command line: its spec, and a new instance.
EnvSpec DescribeEnv(const Config& params);
std::unique_ptr<Env> MakeEnv(const Config& params = ParamsWith({}));

/// In how many episodes the expert must succeed at least once.
int NumExpertSeeds();

/// Heap allocations of the whole process so far.
long NumAllocations();

/// From now on, memory from operator new holds this byte; -1: what was there before.
void FillNewMemory(int byte);

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

/// Everything visible during a part of an episode, as bytes with their meaning.
class Trace {
 public:
  int n_steps = 0;

  /// `what`: "the reward of step 3".
  void Add(std::string what, const void* data, std::size_t size) {
    const auto* const first = static_cast<const std::byte*>(data);
    parts_.push_back({std::move(what), bytes_.size()});
    bytes_.insert(bytes_.end(), first, first + size);
  }
  void Append(const Trace& later) {
    for (const Part& part : later.parts_) parts_.push_back({part.what, bytes_.size() + part.begin});
    bytes_.insert(bytes_.end(), later.bytes_.begin(), later.bytes_.end());
  }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

  /// Names the first thing that differs.
  friend testing::AssertionResult AreEqual(const Trace& found, const Trace& wanted) {
    if (found.bytes_ == wanted.bytes_) return testing::AssertionSuccess();
    const auto [in_found, in_wanted] = std::ranges::mismatch(found.bytes_, wanted.bytes_);
    if (in_found == found.bytes_.end() || in_wanted == wanted.bytes_.end()) {
      return testing::AssertionFailure() << "the episode has another length";
    }
    const auto at = static_cast<std::size_t>(in_found - found.bytes_.begin());
    const auto after = std::ranges::upper_bound(found.parts_, at, {}, &Part::begin);
    return testing::AssertionFailure() << std::prev(after)->what << " differs";
  }

 private:
  struct Part {
    std::string what;
    std::size_t begin;  // in bytes_
  };
  std::vector<std::byte> bytes_;
  std::vector<Part> parts_;
};

/// The visible data after `step` steps. Includes an image only at some steps, because drawing may
/// be slow.
inline void AddView(Env& env, int step, Trace& trace) {
  if (step % kStepsPerObservation != 0 && step != kSteps) return;
  const std::string after = " after step " + std::to_string(step);
  const ObsMemory obs(env.spec());
  env.Observe(obs.writer());
  for (std::size_t i = 0; i < obs.writer().buffers().size(); ++i) {
    const std::span<std::byte> view = obs.writer().buffers()[i];
    trace.Add("the observation '" + env.spec().shape_meta.obs[i].name + "'" + after, view.data(),
              view.size());
  }
  if (step % kStepsPerImage != 0) return;
  RgbImage frame(40, 30);
  env.Render(&frame);
  trace.Add("the image" + after, frame.pixels.data(), frame.pixels.size());
}

/// Plays steps [begin, end) of the actions of `seed` from the current state.
inline Trace Play(Env& env, std::uint64_t seed, int begin = 0, int end = kSteps) {
  Trace trace;
  for (int step = begin; step < end; ++step) {
    const StepResult result = env.Step(ActionAt(env.spec(), seed, step));
    const std::string of = " of step " + std::to_string(step + 1);
    trace.Add("the reward" + of, &result.reward, sizeof(result.reward));
    trace.Add("`terminated`" + of, &result.terminated, sizeof(result.terminated));
    trace.Add("`success`" + of, &result.success, sizeof(result.success));
    trace.Add("a metric" + of, result.metrics.data(), result.metrics.size_bytes());
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
  start.Append(rest);
  start.n_steps = rest.n_steps;
  return start;
}

}  // namespace dp_bench::conformance
