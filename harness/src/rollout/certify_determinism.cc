#include "rollout/certify_determinism.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/sha256.h"
#include "dp_bench/random.h"
#include "plugin/obs_memory.h"

namespace dp_bench::rollout {
namespace {

constexpr int kSeeds = 3;
constexpr int kMostSteps = 100;

// The bytes of one step by key; step 0 is the observation after Reset.
using StepBytes = std::vector<std::pair<std::string, std::string>>;
using Trace = std::vector<StepBytes>;

template <class T>
std::string BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

void AddObservation(Env& env, plugin::ObsMemory* obs, StepBytes* step) {
  obs->Observe(env);
  for (std::size_t i = 0; i < obs->keys().size(); ++i) {
    step->emplace_back(obs->keys()[i].name, core::Sha256Hex((*obs)[i]));
  }
}

// Uniform in the bounds; each drawn action is held for some steps, so that things are moved.
std::vector<float> ActionOf(const EnvSpec& spec, std::uint64_t seed, int step) {
  constexpr int kHeldSteps = 4;
  RandomStream random(seed, StreamId::kPolicyNoise, static_cast<std::uint64_t>(step / kHeldSteps));
  std::vector<float> action;
  for (std::size_t d = 0; d < spec.action_low.size(); ++d) {
    const float range = spec.action_high[d] - spec.action_low[d];
    action.push_back(spec.action_low[d] + random.Uniform() * range);
  }
  return action;
}

Trace Play(Env& env, std::uint64_t seed, int n_steps) {
  const EnvSpec& spec = env.spec();
  plugin::ObsMemory obs(spec);
  Trace trace(1);
  env.Reset(seed);
  AddObservation(env, &obs, &trace.back());
  for (int step = 0; step < n_steps; ++step) {
    const StepResult result = env.Step(ActionOf(spec, seed, step));
    StepBytes bytes = {{"reward", BytesOf(result.reward)},
                       {"terminated", BytesOf(result.terminated)},
                       {"success", BytesOf(result.success)}};
    for (std::size_t i = 0; i < result.metrics.size(); ++i) {
      bytes.emplace_back(spec.metrics[i].name, BytesOf(result.metrics[i]));
    }
    const bool is_over = result.terminated;
    AddObservation(env, &obs, &bytes);
    trace.push_back(std::move(bytes));
    if (is_over) break;
  }
  return trace;
}

std::optional<run::SeedDifference> Compare(const Trace& wanted, const Trace& found,
                                           const char* condition) {
  for (std::size_t step = 0; step < std::min(wanted.size(), found.size()); ++step) {
    for (std::size_t i = 0; i < wanted[step].size(); ++i) {
      if (wanted[step][i] == found[step][i]) continue;
      return run::SeedDifference{condition, static_cast<int>(step), wanted[step][i].first};
    }
  }
  return std::nullopt;
}

std::string HashOf(const std::vector<Trace>& traces) {
  std::string bytes;
  for (const Trace& trace : traces) {
    for (const StepBytes& step : trace) {
      for (const auto& [key, value] : step) bytes += key + value;
    }
  }
  return core::Sha256Hex(bytes);
}

// Envs that play other seeds in threads until this object ends.
class Neighbours {
 public:
  Neighbours(std::vector<std::unique_ptr<Env>> envs, std::uint64_t seed, int n_steps)
      : envs_(std::move(envs)) {
    for (std::size_t i = 0; i < envs_.size(); ++i) {
      threads_.emplace_back([this, i, first = seed + i, n_steps] {
        try {
          for (std::uint64_t k = 0; !is_over_; ++k) Play(*envs_[i], first + 7 * k, n_steps);
        } catch (...) {  // it is only there to disturb
        }
      });
    }
  }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;
  ~Neighbours() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> is_over_ = false;
  std::vector<std::unique_ptr<Env>> envs_;
  std::vector<std::thread> threads_;
};

}  // namespace

run::DeterminismCertificate CertifyDeterminism(
    const std::function<std::unique_ptr<Env>()>& make_env, std::uint64_t first_seed) {
  const std::unique_ptr<Env> env = make_env();
  const int n_steps = std::min(kMostSteps, env->spec().max_steps);
  const auto seed = [&](int i) { return first_seed + static_cast<std::uint64_t>(i); };
  run::DeterminismCertificate certificate = {
      .first_seed = first_seed, .n_seeds = kSeeds, .n_steps = n_steps};
  std::optional<run::SeedDifference>& difference = certificate.difference;
  std::vector<Trace> wanted;
  const auto check = [&](Env& checked, int i, const char* condition) {
    difference =
        Compare(wanted[static_cast<std::size_t>(i)], Play(checked, seed(i), n_steps), condition);
  };
  // each seed in an env that has played nothing yet, so that hidden state shows below
  std::vector<std::unique_ptr<Env>> first;
  for (int i = 0; i < kSeeds; ++i) {
    first.push_back(make_env());
    wanted.push_back(Play(*first.back(), seed(i), n_steps));
  }
  certificate.trace_hash = HashOf(wanted);
  check(*env, 0, "in a fresh process");
  if (!difference) check(*env, 0, "with the same seed again");
  for (int i = 0; i < kSeeds && !difference; ++i) check(*env, i, "after other seeds");
  if (difference) return certificate;
  const Neighbours neighbours(std::move(first), seed(kSeeds), n_steps);
  for (int i = 0; i < kSeeds && !difference; ++i) check(*make_env(), i, "beside other processes");
  return certificate;
}

}  // namespace dp_bench::rollout
