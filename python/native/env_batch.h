// Simulations that step together on a thread pool: the C++ part of every Python environment. The
// outcome of an env depends on its seeds and actions alone, not on the number of envs or threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/thread_pool.h"
#include "simulation.h"

namespace dp_bench::python {

/// gymnasium.vector.AutoresetMode; kNone is a single environment, which may be stepped after its
/// end.
enum class Autoreset { kNextStep, kSameStep, kDisabled, kNone };

/// How envs step together.
struct BatchOptions {
  int num_envs = 1;
  int n_threads = 1;  // with the calling thread
  Autoreset autoreset = Autoreset::kNone;
  int max_episode_steps = 0;  // 0: no limit, -1: that of the spec
};

/// Where a step or reset writes, one row per env.
struct EnvRows {
  std::vector<std::byte*> obs;  // per array of the spec
  std::span<double> infos;      // [num_envs, n_infos]
  std::span<bool> is_success;   // [num_envs]
  std::span<bool> is_reset;     // the row is that of a reset
  std::span<double> rewards;
  std::span<bool> terminated;
  std::span<bool> truncated;
};

/// The next episode of each env.
struct EnvStarts {
  std::span<const std::uint64_t> seeds;  // [num_envs]
  std::span<const double> states;        // [num_envs, state_size]; they replace the seeds if given
};

class EnvBatch {
 public:
  using Factory = std::function<std::unique_ptr<Simulation>()>;

  /// `max_chunk`: envs that a thread takes at most at once: more for quick steps, 1 for slow ones,
  /// so that no thread waits for the last one. Throws what `factory` throws, and std::system_error
  /// if the system refuses a thread.
  EnvBatch(const Factory& factory, const BatchOptions& options, std::size_t max_chunk);
  ~EnvBatch();

  std::size_t num_envs() const { return envs_.size(); }
  const SimulationSpec& spec() const { return envs_.front().simulation->spec(); }

  /// Resets the envs of the mask, [num_envs], and writes the rows of all. Throws Error{kEnv},
  /// before any env is reset, for one that is not reset now and has no episode; and what a
  /// simulation throws.
  void Reset(std::span<const bool> mask, const EnvStarts& starts, const EnvRows& rows);

  /// `actions`: [num_envs, Da]. `starts`: of envs whose episode has ended, unless autoreset is
  /// disabled. `final_rows` gets the rows of episodes that end in
  /// Autoreset::kSameStep; its other rows keep their values. Throws, before any env steps,
  /// Error{kNumeric} for NaN or Inf and Error{kEnv} for an env that has no episode or, in
  /// Autoreset::kDisabled, whose episode has ended. What a simulation throws is thrown after the
  /// others have stepped, and that env has no episode then.
  void Step(std::span<const double> actions, const EnvStarts& starts, const EnvRows& rows,
            const EnvRows& final_rows);

  /// Draws one env. Throws Error{kEnv} before the first Reset.
  void Render(std::size_t env, RgbImage* frame);

 private:
  struct Instance {
    std::unique_ptr<Simulation> simulation;
    int n_steps = 0;
    bool is_started = false;  // false while a call of `simulation` may throw
    bool has_ended = false;
  };

  /// Calls `work` once for each env, on all threads. If calls throw, the others still happen, and
  /// the error of the first env is thrown afterwards. Throws Error{kEnv} in a process that was
  /// forked from the one with the threads.
  void ForEachEnv(const std::function<void(std::size_t env)>& work);

  void RequireStarted(std::size_t env) const;
  void RequireSteppable(std::span<const double> actions) const;
  void Restart(std::size_t env, const EnvStarts& starts, const EnvRows& rows);
  void StepEnv(std::size_t env, std::span<const double> action, const EnvStarts& starts,
               const EnvRows& rows, const EnvRows& final_rows);
  void WriteRow(std::size_t env, bool is_success, const EnvRows& rows);

  Autoreset autoreset_;
  int max_episode_steps_;
  std::size_t max_chunk_;
  std::size_t n_threads_;  // with the calling thread
  int process_id_;         // of the threads
  std::vector<Instance> envs_;
  std::unique_ptr<core::ThreadPool> pool_;  // null with one thread
};

}  // namespace dp_bench::python
