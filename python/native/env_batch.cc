#include "env_batch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <latch>
#include <mutex>
#include <string>

#include "dp_bench/error.h"

namespace dp_bench::python {
namespace {

std::string EnvName(std::size_t env) { return "env " + std::to_string(env); }

}  // namespace

EnvBatch::EnvBatch(const Factory& factory, const BatchOptions& options, std::size_t max_chunk)
    : autoreset_(options.autoreset),
      max_episode_steps_(options.max_episode_steps),
      max_chunk_(max_chunk),
      n_threads_(static_cast<std::size_t>(options.n_threads)),
      process_id_(::getpid()) {
  if (options.n_threads > 1) pool_ = std::make_unique<core::ThreadPool>(options.n_threads - 1);
  for (int i = 0; i < options.num_envs; ++i) envs_.push_back({.simulation = factory()});
  if (max_episode_steps_ < 0) max_episode_steps_ = spec().max_steps;
}

EnvBatch::~EnvBatch() {
  // a forked process has the pool but not its threads, so it could not join them
  if (::getpid() != process_id_) static_cast<void>(pool_.release());
}

void EnvBatch::ForEachEnv(const std::function<void(std::size_t env)>& work) {
  if (pool_ != nullptr && ::getpid() != process_id_) {
    throw Error(ErrorCode::kEnv,
                "this vector env belongs to the process that forked this one; create another here");
  }
  const std::size_t n = envs_.size();
  const std::size_t chunk = std::clamp<std::size_t>(n / (4 * n_threads_), 1, max_chunk_);
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::size_t first_failed = n;
  std::exception_ptr first_error;
  const auto take_chunks = [&] {
    for (std::size_t begin = next.fetch_add(chunk); begin < n; begin = next.fetch_add(chunk)) {
      for (std::size_t i = begin; i < std::min(begin + chunk, n); ++i) {
        try {
          work(i);
        } catch (...) {  // rethrown below
          const std::lock_guard lock(mutex);
          if (i >= first_failed) continue;
          first_failed = i;
          first_error = std::current_exception();
        }
      }
    }
  };
  std::latch others(static_cast<std::ptrdiff_t>(n_threads_) - 1);
  for (std::size_t thread = 1; thread < n_threads_; ++thread) {
    pool_->Submit([&] {
      take_chunks();
      others.count_down();
    });
  }
  take_chunks();
  others.wait();
  if (first_error) std::rethrow_exception(first_error);
}

void EnvBatch::Reset(std::span<const bool> mask, const EnvStarts& starts, const EnvRows& rows) {
  for (std::size_t i = 0; i < envs_.size(); ++i) {
    if (!mask[i]) RequireStarted(i);
  }
  ForEachEnv([&](std::size_t env) {
    rows.is_reset[env] = false;
    if (mask[env]) Restart(env, starts, rows);
    WriteRow(env, /*is_success=*/false, rows);
  });
}

void EnvBatch::Restart(std::size_t env, const EnvStarts& starts, const EnvRows& rows) {
  Instance& instance = envs_[env];
  instance.is_started = false;
  if (starts.states.empty()) {
    instance.simulation->Reset(starts.seeds[env]);
  } else {
    const std::size_t n = spec().state_size;
    instance.simulation->ResetTo(starts.states.subspan(env * n, n));
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

void EnvBatch::Step(std::span<const double> actions, const EnvStarts& starts, const EnvRows& rows,
                    const EnvRows& final_rows) {
  RequireSteppable(actions);
  const std::size_t action_dim = actions.size() / envs_.size();
  ForEachEnv([&](std::size_t env) {
    StepEnv(env, actions.subspan(env * action_dim, action_dim), starts, rows, final_rows);
  });
}

void EnvBatch::StepEnv(std::size_t env, std::span<const double> action, const EnvStarts& starts,
                       const EnvRows& rows, const EnvRows& final_rows) {
  Instance& instance = envs_[env];
  rows.rewards[env] = 0.0;
  rows.terminated[env] = rows.truncated[env] = false;
  if (instance.has_ended && autoreset_ == Autoreset::kNextStep) {
    Restart(env, starts, rows);
    WriteRow(env, /*is_success=*/false, rows);
    return;
  }
  rows.is_reset[env] = false;
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
    Restart(env, starts, rows);
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
