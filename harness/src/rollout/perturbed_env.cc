#include "rollout/perturbed_env.h"

#include <algorithm>
#include <cstddef>

#include "dp_bench/config_keys.h"
#include "dp_bench/random.h"
#include "plugin/env_guard.h"

namespace dp_bench::rollout {
namespace {

constexpr int kMaxDelay = 1000;  // [control steps]
constexpr double kMaxNoise = 1.0;

// The substream of kEnvNoise; the env itself uses 0.
constexpr std::uint32_t kActionNoise = 1;

class DelayAndNoise final : public plugin::ActionFilter {
 public:
  DelayAndNoise(const EnvSpec& spec, const ActionPerturbation& perturbation)
      : low_(spec.action_low),
        high_(spec.action_high),
        perturbation_(perturbation),
        pending_((static_cast<std::size_t>(perturbation.delay) + 1) * low_.size()),
        executed_(low_.size()) {}

  void Start(std::uint64_t seed) override {
    seed_ = seed;
    step_ = 0;
  }

  std::span<const float> Filter(std::span<const float> action) override {
    Delay(action);
    AddNoise();
    ++step_;
    return executed_;
  }

 private:
  std::span<float> Pending(std::uint64_t step) {
    const auto n_places = static_cast<std::uint64_t>(perturbation_.delay) + 1;
    return std::span(pending_).subspan((step % n_places) * low_.size(), low_.size());
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
    for (std::size_t i = 0; i < low_.size(); ++i) {
      const double range = static_cast<double>(high_[i]) - low_[i];
      const auto noise =
          static_cast<float>(perturbation_.noise * range * static_cast<double>(random.Normal()));
      executed_[i] = std::clamp(executed_[i] + noise, low_[i], high_[i]);
    }
  }

  const std::vector<float> low_;   // [Da]
  const std::vector<float> high_;  // [Da]
  const ActionPerturbation perturbation_;
  std::vector<float> pending_;   // [delay + 1, Da]
  std::vector<float> executed_;  // [Da]
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
};

}  // namespace

std::optional<ActionPerturbation> ActionPerturbation::FromConfig(const Config& env) {
  if (!env.Has("perturb")) return std::nullopt;
  const ConfigKeys keys(env.Sub("perturb", "makes every action harder to execute"));
  ActionPerturbation perturbation;
  keys("delay", &perturbation.delay, 0, kMaxDelay, "control steps by which an action arrives late");
  keys("noise", &perturbation.noise, 0.0, kMaxNoise,
       "standard deviation of noise on actions, as a fraction of the action range");
  return perturbation;
}

std::vector<PerturbationSpec> ActionPerturbation::Kinds() {
  return {{.name = "delay", .high = kMaxDelay},
          {.name = "noise", .high = kMaxNoise, .strength = 0.02}};
}

std::unique_ptr<Env> PerturbActions(std::unique_ptr<Env> env,
                                    const ActionPerturbation& perturbation) {
  plugin::EnvGuard::Of(*env).SetActionFilter(
      std::make_unique<DelayAndNoise>(env->spec(), perturbation));
  return env;
}

}  // namespace dp_bench::rollout
