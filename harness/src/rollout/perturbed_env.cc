#include "rollout/perturbed_env.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "dp_bench/random.h"
#include "plugin/forwarding_env.h"

namespace dp_bench::rollout {
namespace {

constexpr std::int64_t kMaxDelay = 1000;  // [control steps]
constexpr double kMaxNoise = 1.0;

// The substream of kEnvNoise; the env itself uses 0.
constexpr std::uint32_t kActionNoise = 1;

// Without StateAccess, because delayed actions would be missing from the state.
EnvSpec SpecOf(const Env& env) {
  EnvSpec spec = env.spec();
  spec.abilities.state_size = 0;
  return spec;
}

class PerturbedEnv final : public plugin::ForwardingEnv {
 public:
  PerturbedEnv(std::unique_ptr<Env> env, const EnvSpec& spec,
               const ActionPerturbation& perturbation)
      : ForwardingEnv(std::move(env), spec),
        perturbation_(perturbation),
        action_dim_(spec.action_low.size()),
        pending_((static_cast<std::size_t>(perturbation.delay) + 1) * action_dim_),
        executed_(action_dim_) {}

  void Reset(std::uint64_t seed) override {
    ForwardingEnv::Reset(seed);
    seed_ = seed;
    step_ = 0;
  }

  StepResult Step(std::span<const float> action) override {
    const bool is_valid = action.size() == action_dim_ &&
                          std::ranges::all_of(action, [](float x) { return std::isfinite(x); });
    if (!is_valid) return ForwardingEnv::Step(action);  // the env refuses it
    Delay(action);
    AddNoise();
    ++step_;
    return ForwardingEnv::Step(executed_);
  }

 private:
  std::span<float> Pending(std::uint64_t step) {
    const auto n_places = static_cast<std::uint64_t>(perturbation_.delay) + 1;
    return std::span(pending_).subspan((step % n_places) * action_dim_, action_dim_);
  }

  void Delay(std::span<const float> action) {
    std::ranges::copy(action, Pending(step_).begin());
    if (step_ == 0) {
      for (std::uint64_t place = 1; place <= static_cast<std::uint64_t>(perturbation_.delay);
           ++place) {
        std::ranges::copy(action, Pending(place).begin());
      }
    }
    // a ring: the next to be overwritten is the oldest
    std::ranges::copy(Pending(step_ + 1), executed_.begin());
  }

  void AddNoise() {
    if (perturbation_.noise == 0.0) return;
    RandomStream random(seed_, StreamId::kEnvNoise, step_, kActionNoise);
    for (std::size_t i = 0; i < action_dim_; ++i) {
      const double range = static_cast<double>(spec().action_high[i]) - spec().action_low[i];
      const auto noise =
          static_cast<float>(perturbation_.noise * range * static_cast<double>(random.Normal()));
      executed_[i] = std::clamp(executed_[i] + noise, spec().action_low[i], spec().action_high[i]);
    }
  }

  const ActionPerturbation perturbation_;
  const std::size_t action_dim_;
  std::vector<float> pending_;   // [delay + 1, Da]
  std::vector<float> executed_;  // [Da]
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
};

}  // namespace

std::optional<ActionPerturbation> ActionPerturbation::FromConfig(const Config& env) {
  if (!env.Has("perturb")) return std::nullopt;
  const Config section = env.Sub("perturb", "makes every action harder to execute");
  ActionPerturbation perturbation;
  perturbation.delay =
      static_cast<int>(section.GetInRange("delay", std::int64_t{0}, std::int64_t{0}, kMaxDelay,
                                          "control steps by which an action arrives late"));
  perturbation.noise = section.GetInRange(
      "noise", 0.0, 0.0, kMaxNoise,
      "standard deviation of noise on actions, as a fraction of the action range");
  return perturbation;
}

std::vector<PerturbationSpec> ActionPerturbation::Kinds() {
  return {{.name = "delay", .high = kMaxDelay},
          {.name = "noise", .high = kMaxNoise, .strength = 0.02}};
}

std::unique_ptr<Env> PerturbActions(std::unique_ptr<Env> env,
                                    const ActionPerturbation& perturbation) {
  const EnvSpec spec = SpecOf(*env);
  return std::make_unique<PerturbedEnv>(std::move(env), spec, perturbation);
}

}  // namespace dp_bench::rollout
