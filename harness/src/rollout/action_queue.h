// Which actions an episode executes from one plan to the next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dp_bench::rollout {

/// Without latency: executes the Ta actions of the chunk, then the next plan is due.
///
/// With a latency of n env steps, simulated time passes while the policy computes. Action i of a
/// chunk is meant for i steps after its observation. The next plan is due when n actions of the
/// current chunk are left, or immediately if there are fewer. Those n are executed while the policy
/// computes; after them, the last one is held. The new chunk starts with its action n, because the
/// first n were meant for times that have passed; diffusion_policy's eval_real_robot.py drops them
/// too. If none is left, the last action is held. An episode begins with its first chunk: nothing
/// moves before it.
class ActionQueue {
 public:
  /// `n_stale`: the number of steps that a plan takes.
  ActionQueue(int n_action_steps, std::size_t action_dim, int n_stale);

  /// To be called before an episode, which has no previous chunk.
  void Clear() { has_previous_ = false; }

  /// The buffer for the plan, [Ta, Da].
  std::span<float> chunk() { return chunk_; }

  /// Starts with the actions in `chunk`; returns the number of steps to the next plan, at least 1.
  int Begin();

  /// The actions of all these steps, [steps, Da].
  std::span<const float> steps() const { return steps_; }

  /// The action of step `i` of these, [Da].
  std::span<const float> action(int i) const;

  /// Whether that action is from the previous chunk, executed while the policy computes.
  bool is_stale(int i) const { return i < n_from_previous_; }

 private:
  int n_action_steps_;
  std::size_t action_dim_;
  int n_stale_;
  bool has_previous_ = false;
  int next_ = 0;             // of the previous chunk: the action to execute next
  int n_from_previous_ = 0;  // of the steps since Begin
  std::vector<float> chunk_;
  std::vector<float> previous_;
  std::vector<float> steps_;  // [steps since Begin, Da]
};

}  // namespace dp_bench::rollout
