#include "env_batch.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench::python {
namespace {

// Envs that a worker steps at once; a step takes about a millisecond.
constexpr std::size_t kMaxChunk = 1;

std::string EnvName(std::size_t env) { return "env " + std::to_string(env); }

}  // namespace

EnvBatch::EnvBatch(const Factory& factory, int num_envs, int n_threads, Autoreset autoreset,
                   int max_episode_steps)
    : autoreset_(autoreset), max_episode_steps_(max_episode_steps), workers_(n_threads) {
  for (int i = 0; i < num_envs; ++i) envs_.push_back({.env = factory()});
}

void EnvBatch::Reset(const EnvResets& resets, const EnvRows& rows) {
  for (std::size_t i = 0; i < envs_.size(); ++i) {
    if (!resets.mask[i]) RequireStarted(i);
    if (resets.mask[i] && !resets.is_seeded[i] && !envs_[i].random) {
      throw Error(ErrorCode::kEnv, EnvName(i) + " has no seed; reset it with a seed first");
    }
  }
  workers_.ForEach(envs_.size(), kMaxChunk, [&](std::size_t, std::size_t env) {
    rows.is_reset[env] = false;
    rows.seeds[env] = 0;
    if (resets.mask[env]) {
      const bool is_seeded = resets.is_seeded[env];
      const std::uint64_t seed = resets.seeds[env];
      if (is_seeded) envs_[env].random.emplace(seed);
      Restart(env, is_seeded ? static_cast<std::int64_t>(seed) : envs_[env].random->NonNegative(),
              rows);
    }
    Observe(env, rows);
  });
}

void EnvBatch::Restart(std::size_t env, std::int64_t seed, const EnvRows& rows) {
  Instance& instance = envs_[env];
  instance.is_started = false;
  instance.env->Reset(static_cast<std::uint64_t>(seed));
  instance.n_steps = 0;
  instance.is_started = true;
  instance.has_ended = false;
  rows.is_reset[env] = true;
  rows.seeds[env] = seed;
  WriteInfo(env, {}, rows);
}

void EnvBatch::RequireStarted(std::size_t env) const {
  if (envs_[env].is_started) return;
  throw Error(ErrorCode::kEnv, EnvName(env) + " has no episode; reset it first");
}

void EnvBatch::RequireSteppable(std::span<const float> actions) const {
  const std::size_t action_dim = actions.size() / envs_.size();
  for (std::size_t i = 0; i < envs_.size(); ++i) {
    RequireStarted(i);
    const std::span<const float> action = actions.subspan(i * action_dim, action_dim);
    const auto bad = std::ranges::find_if(action, [](float x) { return !std::isfinite(x); });
    if (bad != action.end()) {
      throw Error(ErrorCode::kNumeric, "expected a finite action for " + EnvName(i) + ", found " +
                                           std::to_string(*bad) + " in dimension " +
                                           std::to_string(bad - action.begin()));
    }
    if (autoreset_ == Autoreset::kDisabled && envs_[i].has_ended) {
      throw Error(ErrorCode::kEnv, "the episode of " + EnvName(i) +
                                       " has ended; reset it with options={'reset_mask': mask}");
    }
  }
}

void EnvBatch::Step(std::span<const float> actions, const EnvRows& rows, const EnvRows& final_rows,
                    const EnvOutcomes& outcomes) {
  RequireSteppable(actions);
  const std::size_t action_dim = actions.size() / envs_.size();
  workers_.ForEach(envs_.size(), kMaxChunk, [&](std::size_t, std::size_t env) {
    StepEnv(env, actions.subspan(env * action_dim, action_dim), rows, final_rows, outcomes);
  });
}

void EnvBatch::StepEnv(std::size_t env, std::span<const float> action, const EnvRows& rows,
                       const EnvRows& final_rows, const EnvOutcomes& outcomes) {
  Instance& instance = envs_[env];
  outcomes.rewards[env] = 0.0;
  outcomes.terminated[env] = outcomes.truncated[env] = false;
  if (instance.has_ended && autoreset_ == Autoreset::kNextStep) {
    Restart(env, instance.random->NonNegative(), rows);
    Observe(env, rows);
    return;
  }
  rows.is_reset[env] = false;
  rows.seeds[env] = 0;
  instance.is_started = false;
  const StepResult result = instance.env->Step(action);
  instance.is_started = true;
  ++instance.n_steps;
  outcomes.rewards[env] = result.reward;
  outcomes.terminated[env] = result.terminated;
  outcomes.truncated[env] = max_episode_steps_ > 0 && instance.n_steps >= max_episode_steps_;
  instance.has_ended = outcomes.terminated[env] || outcomes.truncated[env];
  if (instance.has_ended && autoreset_ == Autoreset::kSameStep) {
    WriteInfo(env, result, final_rows);
    Observe(env, final_rows);
    Restart(env, instance.random->NonNegative(), rows);
  } else {
    WriteInfo(env, result, rows);
  }
  Observe(env, rows);
}

// Without metrics: those of a reset.
void EnvBatch::WriteInfo(std::size_t env, const StepResult& result, const EnvRows& rows) const {
  rows.is_success[env] = result.success;
  const std::size_t n_metrics = spec().metrics.size();
  const std::span<double> row = rows.metrics.subspan(env * n_metrics, n_metrics);
  std::ranges::fill(row, 0.0);
  std::ranges::copy(result.metrics, row.begin());
}

void EnvBatch::Observe(std::size_t env, const EnvRows& rows) {
  const std::vector<KeySpec>& keys = spec().shape_meta.obs;
  std::vector<std::span<std::byte>> buffers;
  buffers.reserve(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    buffers.push_back(rows.obs[i].subspan(env * keys[i].ByteSize(), keys[i].ByteSize()));
  }
  envs_[env].env->Observe(ObsWriter(keys, buffers));
}

void EnvBatch::Render(std::size_t env, RgbImage* frame) {
  RequireStarted(env);
  envs_[env].env->Render(frame);
}

}  // namespace dp_bench::python
