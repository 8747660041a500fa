// An env whose expert walks to a goal. Faults are selected by seed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>

#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "dp_bench/random.h"

namespace dp_bench::data {

enum class ToyFault { kNone, kLost, kNoWayOn, kNanAction, kEndsEarly, kThrowInReset };

struct ToyWorld {
  std::function<ToyFault(std::uint64_t)> fault_of = [](std::uint64_t) { return ToyFault::kNone; };
  std::function<void(std::uint64_t seed, int step)> on_step = [](std::uint64_t, int) {};
  bool goes_on = false;  // after the success
  std::atomic<int> n_created = 0;
  std::atomic<int> n_resets = 0;
};

/// x [1] starts at 0 and adds the action [1]. Success: beyond a goal in [3, 8) that depends on the
/// seed. The expert's step is 0.5 to 1, depending on the expert's seed. Observations: "state" {x,
/// step number} and "pixels" [3, 2, 2], filled with the step number.
class ToyEnv final : public Env {
 public:
  explicit ToyEnv(ToyWorld& world, bool has_expert = true)
      : Env(Describe(has_expert)), world_(world) {
    ++world.n_created;
  }

 private:
  static EnvSpec Describe(bool has_expert) {
    EnvSpec spec;
    spec.shape_meta.obs = {
        {.name = "pixels", .type = KeyType::kRgb, .shape = {3, 2, 2}, .dtype = DType::kUInt8},
        {.name = "state", .shape = {2}}};
    spec.shape_meta.action = {.name = "action", .shape = {1}};
    spec.action_low = {-1.0F};
    spec.action_high = {1.0F};
    spec.control_hz = 20.0;
    spec.max_steps = 40;
    spec.abilities.has_expert = has_expert;
    return spec;
  }

  void DoReset(std::uint64_t seed) override {
    ++world_.n_resets;
    seed_ = seed;
    fault_ = world_.fault_of(seed);
    if (fault_ == ToyFault::kThrowInReset) throw std::runtime_error("cannot reset");
    RandomStream random(seed, StreamId::kEnvStart);
    goal_ = 3.0F + 5.0F * random.Uniform();
    x_ = 0.0F;
    step_ = 0;
  }

  StepResult DoStep(std::span<const float> action) override {
    world_.on_step(seed_, step_);
    x_ += action[0];
    ++step_;
    const bool success = x_ > goal_;
    return {.reward = 0.0,
            .terminated =
                (success && !world_.goes_on) || (fault_ == ToyFault::kEndsEarly && step_ == 3),
            .success = success};
  }

  void DoObserve(const ObsWriter& obs) override {
    std::ranges::fill(obs.Buffer<std::uint8_t>("pixels"), static_cast<std::uint8_t>(step_));
    std::ranges::copy(std::array{x_, static_cast<float>(step_)},
                      obs.Buffer<float>("state").begin());
  }

  void DoRender(RgbImage*) override {}

  void DoBeginExpert(std::uint64_t seed) override {
    RandomStream random(seed, StreamId::kPolicyNoise);
    stride_ = 0.5F + 0.5F * random.Uniform();
  }
  void DoAct(std::span<float> action) override {
    if (fault_ == ToyFault::kNoWayOn && step_ == 2) throw Error(ErrorCode::kEnv, "no way on");
    const bool is_nan = fault_ == ToyFault::kNanAction && step_ == 1;
    action[0] = is_nan                      ? std::numeric_limits<float>::quiet_NaN()
                : fault_ == ToyFault::kLost ? 0.0F
                                            : stride_;
  }

  ToyWorld& world_;
  ToyFault fault_ = ToyFault::kNone;
  std::uint64_t seed_ = 0;
  float goal_ = 0.0F;
  float x_ = 0.0F;
  float stride_ = 0.0F;
  int step_ = 0;
};

}  // namespace dp_bench::data
