#include "env_batch.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench::python {
namespace {

std::string EnvName(std::size_t env) { return "env " + std::to_string(env); }

}  // namespace

EnvBatch::EnvBatch(const Factory& factory, int num_envs, int n_threads, std::size_t max_chunk,
                   Autoreset autoreset, int max_episode_steps)
    : autoreset_(autoreset),
      max_episode_steps_(max_episode_steps),
      max_chunk_(max_chunk),
      workers_(n_threads) {
  for (int i = 0; i < num_envs; ++i) envs_.push_back({.simulation = factory()});
  if (max_episode_steps_ < 0) max_episode_steps_ = spec().max_steps;
}

void EnvBatch::Reset(const EnvResets& resets, const EnvRows& rows) {
  for (std::size_t i = 0; i < envs_.size(); ++i) {
    if (!resets.mask[i]) RequireStarted(i);
    if (resets.mask[i] && !resets.is_seeded[i] && !envs_[i].random) {
      throw Error(ErrorCode::kEnv, EnvName(i) + " has no seed; reset it with a seed first");
    }
  }
  workers_.ForEach(envs_.size(), max_chunk_, [&](std::size_t env) { ResetEnv(env, resets, rows); });
}

void EnvBatch::ResetEnv(std::size_t env, const EnvResets& resets, const EnvRows& rows) {
  rows.is_reset[env] = false;
  rows.seeds[env] = 0;
  if (resets.mask[env]) {
    std::optional<std::uint64_t> seed;
    if (resets.is_seeded[env]) {
      seed = resets.seeds[env];
      envs_[env].random.emplace(*seed);
    }
    const std::size_t n = spec().state_size;
    Restart(env, seed, resets.states.empty() ? resets.states : resets.states.subspan(env * n, n),
            rows);
  }
  WriteRow(env, /*is_success=*/false, rows);
}

void EnvBatch::Restart(std::size_t env, std::optional<std::uint64_t> seed,
                       std::span<const double> state, const EnvRows& rows) {
  Instance& instance = envs_[env];
  instance.is_started = false;
  rows.seeds[env] = 0;
  if (state.empty()) {
    rows.seeds[env] = instance.simulation->Reset(seed, *instance.random);
  } else {
    instance.simulation->ResetTo(state);
  }
  rows.is_reset[env] = true;
  instance.n_steps = 0;
  instance.is_started = true;
  instance.has_ended = false;
}

void EnvBatch::RequireStarted(std::size_t env) const {
  if (envs_[env].is_started) return;
  throw Error(ErrorCode::kEnv, EnvName(env) + " has no episode; reset it first");
}

void EnvBatch::RequireSteppable(std::span<const double> actions) const {
  const std::size_t action_dim = actions.size() / envs_.size();
  for (std::size_t i = 0; i < envs_.size(); ++i) {
    RequireStarted(i);
    const std::span<const double> action = actions.subspan(i * action_dim, action_dim);
    const auto bad = std::ranges::find_if(action, [](double x) { return !std::isfinite(x); });
    if (bad != action.end()) {
      const std::string whose = autoreset_ == Autoreset::kNone ? "" : " for " + EnvName(i);
      throw Error(ErrorCode::kNumeric, "expected a finite action" + whose + ", found " +
                                           std::to_string(*bad) + " in dimension " +
                                           std::to_string(bad - action.begin()));
    }
    if (autoreset_ == Autoreset::kDisabled && envs_[i].has_ended) {
      throw Error(ErrorCode::kEnv, "the episode of " + EnvName(i) +
                                       " has ended; reset it with options={'reset_mask': mask}");
    }
  }
}

void EnvBatch::Step(std::span<const double> actions, const EnvRows& rows,
                    const EnvRows& final_rows) {
  RequireSteppable(actions);
  const std::size_t action_dim = actions.size() / envs_.size();
  workers_.ForEach(envs_.size(), max_chunk_, [&](std::size_t env) {
    StepEnv(env, actions.subspan(env * action_dim, action_dim), rows, final_rows);
  });
}

void EnvBatch::StepEnv(std::size_t env, std::span<const double> action, const EnvRows& rows,
                       const EnvRows& final_rows) {
  Instance& instance = envs_[env];
  rows.rewards[env] = 0.0;
  rows.terminated[env] = rows.truncated[env] = false;
  if (instance.has_ended && autoreset_ == Autoreset::kNextStep) {
    Restart(env, std::nullopt, {}, rows);
    WriteRow(env, /*is_success=*/false, rows);
    return;
  }
  rows.is_reset[env] = false;
  rows.seeds[env] = 0;
  instance.is_started = false;
  const Simulation::Outcome outcome = instance.simulation->Step(action);
  instance.is_started = true;
  ++instance.n_steps;
  rows.rewards[env] = outcome.reward;
  rows.terminated[env] = outcome.is_terminated;
  rows.truncated[env] = max_episode_steps_ > 0 && instance.n_steps >= max_episode_steps_;
  instance.has_ended = rows.terminated[env] || rows.truncated[env];
  bool is_success = outcome.is_success;
  if (instance.has_ended && autoreset_ == Autoreset::kSameStep) {
    WriteRow(env, is_success, final_rows);
    Restart(env, std::nullopt, {}, rows);
    is_success = false;
  }
  WriteRow(env, is_success, rows);
}

void EnvBatch::WriteRow(std::size_t env, bool is_success, const EnvRows& rows) {
  Simulation& simulation = *envs_[env].simulation;
  const std::size_t n_infos = simulation.spec().infos.size();
  simulation.Observe(rows.obs, env);
  simulation.WriteInfos(rows.infos.subspan(env * n_infos, n_infos));
  rows.is_success[env] = is_success;
}

void EnvBatch::Render(std::size_t env, RgbImage* frame) {
  RequireStarted(env);
  envs_[env].simulation->Render(frame);
}

}  // namespace dp_bench::python
