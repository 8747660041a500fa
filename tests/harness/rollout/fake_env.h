// A tiny env whose faults are selected by seed, and a matching planner. Both are pure functions of
// their inputs, so any difference between two runs comes from the runner.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "dp_bench/env.h"
#include "dp_bench/error.h"
#include "dp_bench/random.h"

namespace dp_bench::rollout {

enum class Fault {
  kNone,
  kThrowInReset,
  kThrowInObserve,
  kThrowInStep,
  kThrowANumberInStep,
  kThrowALongTextInStep,
  kNanReward,
  kNanMetric,
  kTooFewMetrics,
  kThrowInRender,
};

/// The behaviour of the envs of one test, and what they observed. `fault_of` and `end_of` get the
/// seed.
struct FakeWorld {
  std::function<Fault(std::uint64_t)> fault_of = [](std::uint64_t) { return Fault::kNone; };
  std::function<int(std::uint64_t)> end_of = [](std::uint64_t) { return 1 << 30; };
  int fault_step = 5;
  int max_steps = 30;
  double control_hz = 10.0;
  double reward_sign = 1.0;
  std::atomic<int> n_created = 0;
  std::atomic<int> n_observed = 0;
  std::atomic<int> n_rendered = 0;
};

/// A point [2] that moves by the action. Observations: "pos" [2], "pixels" [3, 2, 2], and "step"
/// [1], counted from 0, which makes windows readable.
class FakeEnv : public Env {
 public:
  explicit FakeEnv(FakeWorld& world, EnvAbilities abilities = {})
      : Env(Describe(world, std::move(abilities))), world_(world) {
    ++world.n_created;
  }

 protected:
  void DoReset(std::uint64_t seed) override {
    fault_ = world_.fault_of(seed);
    end_ = world_.end_of(seed);
    step_ = 0;
    RandomStream random(seed, StreamId::kEnvStart);
    x_ = random.Uniform();
    y_ = random.Uniform();
    if (fault_ == Fault::kThrowInReset) throw std::runtime_error("cannot reset");
  }

  StepResult DoStep(std::span<const float> action) override {
    x_ = 0.9F * x_ + 0.1F * action[0];
    y_ = 0.9F * y_ + 0.1F * action[1];
    const bool is_due = step_ == world_.fault_step;
    if (is_due && fault_ == Fault::kThrowInStep) throw Error(ErrorCode::kEnv, "it broke");
    if (is_due && fault_ == Fault::kThrowANumberInStep) throw 42;
    if (is_due && fault_ == Fault::kThrowALongTextInStep) {
      std::string text = "it broke: ";
      for (int i = 0; i < 50000; ++i) text += "\xC3\xA9";  // an e with an accent
      throw Error(ErrorCode::kEnv, text + ", joint 7");
    }
    ++step_;
    metrics_ = {x_, x_, x_};
    if (is_due && fault_ == Fault::kNanMetric) metrics_[1] = std::nan("");
    const bool has_too_few = is_due && fault_ == Fault::kTooFewMetrics;
    const double reward = world_.reward_sign * std::abs(static_cast<double>(x_));
    return {.reward = is_due && fault_ == Fault::kNanReward ? std::nan("") : reward,
            .terminated = step_ == end_,
            .success = step_ == end_,
            .metrics = std::span(metrics_).first(has_too_few ? 2 : 3)};
  }

  void DoObserve(const ObsWriter& obs) override {
    ++world_.n_observed;
    if (fault_ == Fault::kThrowInObserve && step_ > 0) throw std::runtime_error("cannot observe");
    const std::span<std::uint8_t> pixels = obs.Buffer<std::uint8_t>("pixels");
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      pixels[i] = static_cast<std::uint8_t>(static_cast<std::size_t>(step_) * 16 + i);
    }
    std::ranges::copy(std::array{x_, y_}, obs.Buffer<float>("pos").begin());
    obs.Buffer<float>("step")[0] = static_cast<float>(step_);
  }

  void DoRender(RgbImage* frame) override {
    ++world_.n_rendered;
    if (fault_ == Fault::kThrowInRender && step_ > 0) throw std::runtime_error("cannot draw");
    std::ranges::fill(frame->pixels, static_cast<std::uint8_t>(8 * step_));
  }

 private:
  static EnvSpec Describe(const FakeWorld& world, EnvAbilities abilities) {
    EnvSpec spec;
    spec.shape_meta.obs = {
        {.name = "pixels", .type = KeyType::kRgb, .shape = {3, 2, 2}, .dtype = DType::kUInt8},
        {.name = "pos", .shape = {2}},
        {.name = "step", .shape = {1}}};
    spec.shape_meta.action = {.name = "action", .shape = {2}};
    spec.action_low = {-1.0F, -1.0F};
    spec.action_high = {1.0F, 1.0F};
    spec.control_hz = world.control_hz;
    spec.max_steps = world.max_steps;
    spec.metrics = {
        {"x_max", Aggregate::kMax}, {"x_mean", Aggregate::kMean}, {"x_last", Aggregate::kLast}};
    spec.abilities = std::move(abilities);
    return spec;
  }

  FakeWorld& world_;
  Fault fault_ = Fault::kNone;
  int end_ = 0;
  int step_ = 0;
  float x_ = 0.0F;
  float y_ = 0.0F;
  std::vector<double> metrics_;
};

/// Keeps the first `n_kept` numbers of every action that it executes, one action after the other.
class RecordingEnv final : public FakeEnv {
 public:
  RecordingEnv(FakeWorld& world, std::vector<float>* executed, std::size_t n_kept)
      : FakeEnv(world), executed_(executed), n_kept_(n_kept) {}

  StepResult DoStep(std::span<const float> action) override {
    const std::span<const float> kept = action.first(n_kept_);
    executed_->insert(executed_->end(), kept.begin(), kept.end());
    return FakeEnv::DoStep(action);
  }

 private:
  std::vector<float>* executed_;
  std::size_t n_kept_;
};

/// The window of a low_dim key of one row, flat.
inline std::span<const float> WindowOf(const control::ObsBatch& obs, const std::string& key,
                                       std::size_t row) {
  const Array& array = obs.find(key)->second;
  const std::size_t size = array.as<float>().size() / static_cast<std::size_t>(array.shape()[0]);
  return array.as<float>().subspan(row * size, size);
}

/// A row of a plan.
struct PlannedRow {
  const control::ObsBatch& obs;
  std::size_t row;
  const control::PlanRow& name;
  std::span<float> chunk;

  std::span<const float> window(const std::string& key) const { return WindowOf(obs, key, row); }
};

/// Actions computed from the window and from noise. Hooks change a row's chunk, or throw.
class FakePlanner : public control::ChunkPlanner {
 public:
  using Hook = std::function<void(const PlannedRow& row)>;

  explicit FakePlanner(int batch_size, Hook hook = {})
      : batch_size_(batch_size), hook_(std::move(hook)) {}

  int batch_size() const override { return batch_size_; }

  void Plan(const control::ObsBatch& obs, std::span<const control::PlanRow> rows,
            std::span<float> actions) override {
    const auto batch_size = static_cast<std::size_t>(batch_size_);
    const std::size_t chunk_size = actions.size() / batch_size;
    for (std::size_t row = 0; row < batch_size; ++row) {
      const control::PlanRow& name = rows[row < rows.size() ? row : 0];
      const std::span<float> chunk = actions.subspan(row * chunk_size, chunk_size);
      RandomStream random(name.seed, StreamId::kPolicyNoise, name.env_step);
      const float feature = WindowOf(obs, "pos", row).back();
      for (float& value : chunk) value = 0.3F * random.Normal() + feature;
      if (hook_ && row < rows.size()) hook_({obs, row, name, chunk});
    }
  }

 private:
  int batch_size_;
  Hook hook_;
};

}  // namespace dp_bench::rollout
