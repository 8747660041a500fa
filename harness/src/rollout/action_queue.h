// Which actions an episode executes from one plan to the next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dp_bench::rollout {

/// Without latency: the Ta actions of the chunk, then the next plan.
///
/// With a latency of n env steps, simulated time passes while the policy thinks. Action i of a
/// chunk is meant for i steps after its observation. The next chunk is asked for when n actions of
/// the present one are left (at once where there are fewer); those n are executed while the policy
/// thinks, then the last one is held. The new chunk takes over with its action n: the first n are
/// of times that have passed, as diffusion_policy's eval_real_robot.py drops them. Where none is
/// left its last action is held. An episode begins with its first chunk: nothing moves before.
class ActionQueue {
 public:
  /// `n_stale`: steps that a plan takes.
  ActionQueue(int n_action_steps, std::size_t action_dim, int n_stale);

  /// Before an episode: there is no previous chunk.
  void Clear() { has_previous_ = false; }

  /// Where the plan goes, [Ta, Da].
  std::span<float> chunk() { return chunk_; }

  /// Takes what is in `chunk`; returns the number of steps to the next plan, at least 1.
  int Begin();

  /// What is executed in all of them, [steps, Da].
  std::span<const float> steps() const { return steps_; }

  /// What is executed in the step `i` of them, [Da].
  std::span<const float> action(int i) const;

  /// Whether that is an action of the previous chunk, executed while the policy thought.
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
