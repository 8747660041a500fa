// Which actions an episode executes from one plan to the next.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace dp_bench::control {

/// A plan is due every `n_execute` steps, and takes some steps, in which simulated time passes.
/// Action i of a chunk is meant for i steps after its observation. While the policy computes, the
/// previous chunk is executed; where it ends, its last action is held. The new chunk starts with
/// the action of the step in which it is there, because those before were meant for times that have
/// passed; diffusion_policy's eval_real_robot.py drops them too, and Black et al. 2025 (Alg. 1)
/// execute old[0:d] and new[d:n_execute]. A plan that takes longer than n_execute steps is followed
/// by the next one at once. An episode begins with its first chunk: nothing moves before it.
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
  /// `n_execute` is at least 1. `ensemble_coeff`: none for no ensembling.
  /// `starts_on_arrival`: action 0 of a chunk is meant for the step in which it should be there,
  /// not for that of its observation (state roll-forward).
  ActionQueue(int n_action_steps, std::size_t action_dim, int n_execute,
              std::optional<double> ensemble_coeff = std::nullopt, bool starts_on_arrival = false);

  /// To be called before an episode, which has no previous chunk.
  void Clear();

  /// A plan is asked for, which takes `n_steps`; none at the beginning of an episode.
  void Ask(int n_steps);

  /// After Ask: how many actions the previous chunk has for the steps from now on.
  int n_left() const { return has_previous_ ? n_action_steps_ - next_of_previous_ : 0; }

  /// These actions, [n, Da]. A chunk that starts on arrival must know what is executed until then:
  /// for it, a used-up chunk has its last action, which is held.
  std::span<const float> committed() const;

  /// The plan is late: one more step of the previous chunk, which must exist.
  void Hold() { ++n_from_previous_; }
  bool can_hold() const { return has_previous_; }

  /// The plan is in `chunk()`: what it has for the remaining time follows, which may be nothing.
  /// Afterwards there is at least one step.
  void Take();

  /// The plan failed. The steps so far were executed, and one more passed without an action; a new
  /// plan can be asked for.
  void Abandon();

  /// The buffer for the plan that was asked for, [Ta, Da].
  std::span<float> chunk() { return chunk_; }

  /// The steps that are known. After Take, these are all steps until the next plan is due.
  int n_steps() const { return n_from_previous_ + n_from_chunk_; }

  /// The action of step `i`, [Da].
  std::span<const float> action(int i) const;

  /// The place of that action in its chunk, from 0.
  int place(int i) const;

  /// Whether that action is from the previous chunk, executed while the policy computes.
  bool is_stale(int i) const { return i < n_from_previous_; }

  /// The actions of all steps, [n_steps, Da].
  std::vector<float> steps() const;

 private:
  bool is_ensembling() const { return !shares_.empty(); }
  void AverageWithPrevious();

  int n_action_steps_;
  std::size_t action_dim_;
  int n_execute_;
  bool starts_on_arrival_;
  std::vector<double> shares_;  // of the n-th plan in a mean of n plans; empty: no ensembling
  bool has_previous_ = false;
  int next_of_previous_ = 0;  // the action to execute in step 0
  int n_expected_ = 0;        // steps that the plan should take
  int n_from_previous_ = 0;
  int n_from_chunk_ = 0;
  int end_of_chunk_ = 0;  // the action after the last one that is executed
  std::vector<float> chunk_;
  std::vector<float> previous_;
  std::vector<std::size_t> n_plans_;  // in the mean of each action of chunk_
  std::vector<std::size_t> previous_n_plans_;
};

}  // namespace dp_bench::control
