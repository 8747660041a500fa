// Simulations that step together on a thread pool: the C++ part of every Python environment. The
// outcome of an env depends on its seeds and actions alone, not on the number of envs or threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "simulation.h"
#include "worker_team.h"

namespace dp_bench::python {

/// gymnasium.vector.AutoresetMode; kNone is a single environment, which may be stepped after its
/// end.
enum class Autoreset { kNextStep, kSameStep, kDisabled, kNone };

/// Where a step or reset writes, one row per env.
struct EnvRows {
  std::vector<std::byte*> obs;     // per array of the spec
  std::span<double> infos;         // [num_envs, n_infos]
  std::span<bool> is_success;      // [num_envs]
  std::span<bool> is_reset;        // the row is that of a reset
  std::span<std::uint64_t> seeds;  // of the episode where is_reset, else 0
  std::span<double> rewards;
  std::span<bool> terminated;
  std::span<bool> truncated;
};

/// Which envs to reset, [num_envs] each.
struct EnvResets {
  std::span<const bool> mask;
  std::span<const bool> is_seeded;  // the generators of the others continue
  std::span<const std::uint64_t> seeds;
  std::span<const double> states;  // [num_envs, state_size]; empty: drawn
};

class EnvBatch {
 public:
  using Factory = std::function<std::unique_ptr<Simulation>()>;

  /// `max_chunk`: envs that a worker steps at once, more for quick steps. `max_episode_steps`: 0
  /// means no limit, -1 that of the spec. Throws what `factory` throws, and std::system_error if
  /// the system refuses a thread.
  EnvBatch(const Factory& factory, int num_envs, int n_threads, std::size_t max_chunk,
           Autoreset autoreset, int max_episode_steps);

  std::size_t num_envs() const { return envs_.size(); }
  const SimulationSpec& spec() const { return envs_.front().simulation->spec(); }

  /// Resets envs and writes the rows of all. Throws Error{kEnv}, before any env is reset, for one
  /// that gets no seed and never had one, and for one that is not reset now and has no episode; and
  /// what a simulation throws.
  void Reset(const EnvResets& resets, const EnvRows& rows);

  /// `actions`: [num_envs, Da]. `final_rows` gets the rows of episodes that end in
  /// Autoreset::kSameStep; its other rows keep their values. Throws, before any env steps,
  /// Error{kNumeric} for NaN or Inf and Error{kEnv} for an env that has no episode or, in
  /// Autoreset::kDisabled, whose episode has ended. What a simulation throws is thrown after the
  /// others have stepped, and that env has no episode then.
  void Step(std::span<const double> actions, const EnvRows& rows, const EnvRows& final_rows);

  /// Draws one env. Throws Error{kEnv} before the first Reset.
  void Render(std::size_t env, RgbImage* frame);

 private:
  struct Instance {
    std::unique_ptr<Simulation> simulation;
    std::optional<NumpyGenerator> random;
    int n_steps = 0;
    bool is_started = false;  // false while a call of `simulation` may throw
    bool has_ended = false;
  };

  void RequireStarted(std::size_t env) const;
  void RequireSteppable(std::span<const double> actions) const;
  void ResetEnv(std::size_t env, const EnvResets& resets, const EnvRows& rows);
  void Restart(std::size_t env, std::optional<std::uint64_t> seed, std::span<const double> state,
               const EnvRows& rows);
  void StepEnv(std::size_t env, std::span<const double> action, const EnvRows& rows,
               const EnvRows& final_rows);
  void WriteRow(std::size_t env, bool is_success, const EnvRows& rows);

  Autoreset autoreset_;
  int max_episode_steps_;
  std::size_t max_chunk_;
  std::vector<Instance> envs_;
  WorkerTeam workers_;
};

}  // namespace dp_bench::python
