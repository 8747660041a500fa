// Many PushT simulations that step together on a thread pool: the C++ part of
// dp_bench.PushTVectorEnv. The outcome of an env depends on its seed and actions alone, not on the
// number of envs or threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "autoreset.h"
#include "dp_bench/env.h"
#include "numpy_random.h"
#include "pusht_render.h"
#include "pusht_sim.h"
#include "worker_team.h"

namespace dp_bench::python {

/// Which generator draws the start states.
enum class Seeding { kGymPusht, kDiffusionPolicy };

inline constexpr std::size_t kPixelsSize = pusht::kImageSize * pusht::kImageSize * 3;
inline constexpr std::size_t kInfoSize = 8;

/// Where observations and infos are written, one row per env. An observation of another kind is a
/// null pointer.
struct PushtRows {
  double* state = nullptr;              // [num_envs, 5]
  double* environment_state = nullptr;  // [num_envs, 16]
  double* agent_pos = nullptr;          // [num_envs, 2]
  std::uint8_t* pixels = nullptr;       // [num_envs, 96, 96, 3]

  double* info = nullptr;  // [num_envs, 8]: agent x, y, its velocity, block x, y, angle, coverage
  std::int64_t* n_contacts = nullptr;  // [num_envs]
  bool* is_success = nullptr;          // [num_envs]
};

/// The outcome of a step, [num_envs] each.
struct PushtOutcomes {
  double* rewards = nullptr;
  bool* terminated = nullptr;
  bool* truncated = nullptr;
  bool* has_coverage = nullptr;  // false where the observation is that of a reset
};

/// Which envs to reset, and how.
struct PushtResets {
  const bool* mask = nullptr;            // [num_envs]
  const bool* is_seeded = nullptr;       // [num_envs]; the generators of the others continue
  const std::uint64_t* seeds = nullptr;  // [num_envs]
  const double* starts = nullptr;        // [num_envs, 5]; null: drawn
};

class PushtBatch {
 public:
  /// `max_episode_steps`: 0 means no limit. Throws std::system_error if the system refuses a
  /// thread.
  PushtBatch(int num_envs, int n_threads, Seeding seeding, Autoreset autoreset,
             int max_episode_steps);

  int num_envs() const { return static_cast<int>(envs_.size()); }

  /// Resets envs and writes the rows of all. Throws Error{kEnv}, before any env is reset, for one
  /// that gets no seed and never had one, and for one that is not reset now and never was.
  void Reset(const PushtResets& resets, const PushtRows& rows);

  /// `actions`: [num_envs, 2], targets of the agents [px]. `final_rows` gets the rows of episodes
  /// that end in Autoreset::kSameStep; its other rows keep their values. Throws, before any env
  /// steps, Error{kNumeric} for NaN or Inf and Error{kEnv} for an env that was not reset or, in
  /// Autoreset::kDisabled, has ended.
  void Step(const double* actions, const PushtRows& rows, const PushtRows& final_rows,
            const PushtOutcomes& outcomes);

  /// Draws one env as large as fits into `frame`. Throws Error{kEnv} before the first Reset.
  void Render(int env, RgbImage* frame) const;

 private:
  struct Instance {
    PushtSim sim;
    std::optional<NumpyGenerator> random;
    std::optional<pusht::Point> target;
    int n_steps = 0;
    bool is_started = false;
    bool has_ended = false;
  };

  void RequireSteppable(const double* actions) const;
  void RequireStarted(std::size_t env) const;
  void Restart(Instance& instance, const PushtStart& start) const;
  PushtStart DrawStart(NumpyGenerator& random) const;
  void ResetEnv(std::size_t env, const PushtResets& resets);
  void StepEnv(std::size_t worker, std::size_t env, const double* action, const PushtRows& rows,
               const PushtRows& final_rows, const PushtOutcomes& outcomes);
  void WriteRow(std::size_t worker, std::size_t env, const PushtRows& rows);

  Seeding seeding_;
  Autoreset autoreset_;
  int max_episode_steps_;
  std::vector<Instance> envs_;
  std::vector<pusht::PushtRenderer> renderers_;  // one per worker
  WorkerTeam workers_;
};

}  // namespace dp_bench::python
