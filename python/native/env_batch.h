// Many envs that step together on a thread pool: the C++ part of dp_bench.KuavoVectorEnv. The
// outcome of an env depends on its seeds and actions alone, not on the number of envs or threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "autoreset.h"
#include "dp_bench/env.h"
#include "numpy_random.h"
#include "worker_team.h"

namespace dp_bench::python {

/// Where observations and infos are written, one row per env.
struct EnvRows {
  std::vector<std::span<std::byte>> obs;  // per key of the spec
  std::span<bool> is_success;             // [num_envs]
  std::span<double> metrics;              // [num_envs, n_metrics]; 0 where is_reset
  std::span<bool> is_reset;               // [num_envs]: the row is that of a reset
  std::span<std::int64_t> seeds;          // [num_envs]: of the episode where is_reset, else 0
};

/// The outcome of a step, [num_envs] each.
struct EnvOutcomes {
  std::span<double> rewards;
  std::span<bool> terminated;
  std::span<bool> truncated;
};

/// Which envs to reset, [num_envs] each.
struct EnvResets {
  std::span<const bool> mask;
  std::span<const bool> is_seeded;       // the others take the next seed of their generator
  std::span<const std::uint64_t> seeds;  // below 2^63
};

class EnvBatch {
 public:
  using Factory = std::function<std::unique_ptr<Env>()>;

  /// `max_episode_steps`: 0 means no limit. Throws what `factory` throws, and std::system_error if
  /// the system refuses a thread.
  EnvBatch(const Factory& factory, int num_envs, int n_threads, Autoreset autoreset,
           int max_episode_steps);

  std::size_t num_envs() const { return envs_.size(); }
  const EnvSpec& spec() const { return envs_.front().env->spec(); }

  /// Resets envs and writes the rows of all. Throws Error{kEnv}, before any env is reset, for one
  /// that gets no seed and never had one, and for one that is not reset now and has no episode; and
  /// what an env throws.
  void Reset(const EnvResets& resets, const EnvRows& rows);

  /// `actions`: [num_envs, Da]. `final_rows` gets the rows of episodes that end in
  /// Autoreset::kSameStep; its other rows keep their values. Throws, before any env steps,
  /// Error{kNumeric} for NaN or Inf and Error{kEnv} for an env that has no episode or, in
  /// Autoreset::kDisabled, whose episode has ended. What an env throws is thrown after the others
  /// have stepped, and that env has no episode then.
  void Step(std::span<const float> actions, const EnvRows& rows, const EnvRows& final_rows,
            const EnvOutcomes& outcomes);

  /// Draws one env. Throws Error{kEnv} before the first Reset.
  void Render(std::size_t env, RgbImage* frame);

 private:
  struct Instance {
    std::unique_ptr<Env> env;
    std::optional<NumpyGenerator> random;  // of the seeds of episodes
    int n_steps = 0;
    bool is_started = false;  // false while a call of `env` may throw
    bool has_ended = false;
  };

  void RequireStarted(std::size_t env) const;
  void RequireSteppable(std::span<const float> actions) const;
  void Restart(std::size_t env, std::int64_t seed, const EnvRows& rows);
  void StepEnv(std::size_t env, std::span<const float> action, const EnvRows& rows,
               const EnvRows& final_rows, const EnvOutcomes& outcomes);
  void WriteInfo(std::size_t env, const StepResult& result, const EnvRows& rows) const;
  void Observe(std::size_t env, const EnvRows& rows);

  Autoreset autoreset_;
  int max_episode_steps_;
  std::vector<Instance> envs_;
  WorkerTeam workers_;
};

}  // namespace dp_bench::python
