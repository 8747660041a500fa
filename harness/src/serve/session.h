// What a server remembers of one episode of one client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "control/action_queue.h"
#include "control/chunk_planner.h"
#include "control/obs_history.h"
#include "control/obs_input.h"
#include "dp_bench/spec.h"
#include "serve/observations.h"

namespace dp_bench::serve {

/// The last To observations, the rest of a chunk, and the numbers that decide the policy's noise.
/// Nothing of other sessions is in it, so an answer is a function of weights, observations and
/// seed.
class Session {
 public:
  explicit Session(const PolicySpec& spec);

  /// A new episode: its seed is this one, or the number of episodes before it.
  void Reset(std::optional<std::uint64_t> seed);

  std::uint64_t seed() const { return seed_; }  // of the episode

  /// Throws Error{kShape} or {kNumeric} if the observations of a row cannot be taken in.
  void Check(const Observations& observations, std::size_t row);

  /// Takes in the observations of a row, which were the last to be checked. One step joins those
  /// that came before; several are all that there is, as at the beginning of an episode.
  void Observe(const Observations& observations, std::size_t row);

  /// The numbers for the noise of the next plan. `step`: the env step that the client says it is
  /// at; otherwise the observations since the reset are counted.
  control::PlanRow PlanRowFor(std::optional<std::uint64_t> seed,
                              std::optional<std::uint64_t> step) const;

  const control::ObsHistory& history() const { return history_; }

  bool has_action() const { return next_ < queue_.n_steps(); }

  /// The next action of the chunk, [Da]; empty if a plan is due.
  std::span<const float> NextAction();

  /// The next plan, [Ta, Da], whose actions NextAction hands out; with temporal ensembling, means
  /// of them and those of earlier plans.
  void SetChunk(std::span<const float> chunk);

 private:
  PolicySpec spec_;
  control::ObsInput input_;
  control::ObsHistory history_;
  bool is_first_ = true;
  std::uint64_t seed_ = 0;
  std::uint64_t n_episodes_ = 0;
  std::uint64_t n_observed_ = 0;
  control::ActionQueue queue_;
  int next_ = 0;  // step of the queue
};

}  // namespace dp_bench::serve
