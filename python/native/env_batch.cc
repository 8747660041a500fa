#include "env_batch.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench::python {
namespace {

std::string EnvName(std::size_t env) { return "env " + std::to_string(env); }

}  // namespace

EnvBatch::EnvBatch(const Factory& factory, int num_envs, int n_threads, Autoreset autoreset,
                   int max_episode_steps)
    : autoreset_(autoreset), max_episode_steps_(max_episode_steps), workers_(n_threads) {
  for (int i = 0; i < num_envs; ++i) envs_.push_back({.env = factory()});
}

void EnvBatch::Reset(std::span<const bool> mask, std::span<const std::uint64_t> seeds,
                     const EnvRows& rows) {
  for (std::size_t i = 0; i < envs_.size(); ++i) {
    if (!mask[i]) RequireStarted(i);
  }
  workers_.ForEach(envs_.size(), [&](std::size_t, std::size_t env) {
    rows.is_reset[env] = mask[env];
    if (mask[env]) Restart(env, seeds[env], rows);
    Observe(env, rows);
  });
}

void EnvBatch::Restart(std::size_t env, std::uint64_t seed, const EnvRows& rows) {
  Instance& instance = envs_[env];
  instance.is_started = false;  // until Reset returns
  instance.env->Reset(seed);
  instance = {.env = std::move(instance.env), .is_started = true};
  rows.is_reset[env] = true;
  WriteInfo(env, {}, rows);
}

void EnvBatch::RequireStarted(std::size_t env) const {
  if (envs_[env].is_started) return;
  throw Error(ErrorCode::kEnv, EnvName(env) + " was never reset; call reset() first");
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

void EnvBatch::Step(std::span<const float> actions, std::span<const std::uint64_t> next_seeds,
                    const EnvRows& rows, const EnvRows& final_rows, const EnvOutcomes& outcomes) {
  RequireSteppable(actions);
  const std::size_t action_dim = actions.size() / envs_.size();
  workers_.ForEach(envs_.size(), [&](std::size_t, std::size_t env) {
    StepEnv(env, actions.subspan(env * action_dim, action_dim), next_seeds[env], rows, final_rows,
            outcomes);
  });
}

void EnvBatch::StepEnv(std::size_t env, std::span<const float> action, std::uint64_t next_seed,
                       const EnvRows& rows, const EnvRows& final_rows,
                       const EnvOutcomes& outcomes) {
  Instance& instance = envs_[env];
  outcomes.rewards[env] = 0.0;
  outcomes.terminated[env] = outcomes.truncated[env] = false;
  rows.is_reset[env] = false;
  if (instance.has_ended && autoreset_ == Autoreset::kNextStep) {
    Restart(env, next_seed, rows);
    Observe(env, rows);
    return;
  }
  const StepResult result = instance.env->Step(action);
  ++instance.n_steps;
  outcomes.rewards[env] = result.reward;
  outcomes.terminated[env] = result.terminated;
  outcomes.truncated[env] = max_episode_steps_ > 0 && instance.n_steps >= max_episode_steps_;
  instance.has_ended = outcomes.terminated[env] || outcomes.truncated[env];
  if (instance.has_ended && autoreset_ == Autoreset::kSameStep) {
    WriteInfo(env, result, final_rows);
    Observe(env, final_rows);
    Restart(env, next_seed, rows);
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
