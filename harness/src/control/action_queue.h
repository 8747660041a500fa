// Which actions an episode executes from one plan to the next.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dp_bench::control {

/// Without latency: executes the Ta actions of the chunk, then the next plan is due.
///
/// With a latency of n env steps, simulated time passes while the policy computes. Action i of a
/// chunk is meant for i steps after its observation. The next plan is due when n actions of the
/// current chunk are left, or immediately if there are fewer. Those n are executed while the policy
/// computes; after them, the last one is held. The new chunk starts with its action n, because the
/// first n were meant for times that have passed; diffusion_policy's eval_real_robot.py drops them
/// too. If none is left, the last action is held. An episode begins with its first chunk: nothing
/// moves before it.
///
/// With temporal ensembling (Horizons::temporal_ensemble_coeff), the next plan is due after one
/// action of the chunk. An action of the new chunk becomes the weighted mean of those that this and
/// earlier plans of the episode have for its time, as in LeRobot's ACTTemporalEnsembler. What is
/// said above about the current chunk holds for the means.
///
/// The steps from one plan to the next are numbered from 0. Calls come in the order Ask, any number
/// of Hold, then Take or Abandon. Nothing allocates after construction, except in `steps`.
class ActionQueue {
 public:
  /// `n_stale`: the number of steps that a plan takes. `ensemble_coeff`: none for no ensembling.
  ActionQueue(int n_action_steps, std::size_t action_dim, int n_stale,
              std::optional<double> ensemble_coeff = std::nullopt);

  /// To be called before an episode, which has no previous chunk.
  void Clear();

  /// A plan is asked for. Its steps begin with those that pass until it is there: none without
  /// latency, and none at the beginning of an episode.
  void Ask();

  /// The plan is late: one more step of the previous chunk, which must exist.
  void Hold() { ++n_from_previous_; }
  bool can_hold() const { return has_previous_; }

  /// The plan is in `chunk()`: what it has for the remaining time follows, which may be nothing.
  /// Afterwards there is at least one step.
  void Take();

  /// The plan failed. The steps so far were executed; a new plan can be asked for.
  void Abandon();

  /// The buffer for the plan that was asked for, [Ta, Da].
  std::span<float> chunk() { return chunk_; }

  /// The steps that are known. After Take, these are all steps until the next plan is due.
  int n_steps() const { return n_from_previous_ + n_from_chunk_; }

  /// The action of step `i`, [Da].
  std::span<const float> action(int i) const;

  /// Whether that action is from the previous chunk, executed while the policy computes.
  bool is_stale(int i) const { return i < n_from_previous_; }

  /// The actions of all steps, [n_steps, Da].
  std::vector<float> steps() const;

 private:
  bool is_ensembling() const { return !shares_.empty(); }
  void AverageWithPrevious();

  int n_action_steps_;
  std::size_t action_dim_;
  int n_stale_;
  std::vector<double> shares_;  // of the n-th plan in a mean of n plans; empty: no ensembling
  bool has_previous_ = false;
  int next_of_previous_ = 0;  // the action to execute in step 0
  int n_from_previous_ = 0;
  int n_from_chunk_ = 0;
  int end_of_chunk_ = 0;  // the action after the last one that is executed
  std::vector<float> chunk_;
  std::vector<float> previous_;
  std::vector<std::size_t> n_plans_;  // in the mean of each action of chunk_
  std::vector<std::size_t> previous_n_plans_;
};

}  // namespace dp_bench::control
