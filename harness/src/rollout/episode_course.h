// How an episode went, in a few numbers that are kept while it runs: enough to tell one way of
// failing from another, and to say when it began.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/spec.h"
#include "rollout/obs_ranges.h"

namespace dp_bench {

/// Steps count those executed: step k is the state that k of them led to, 0 the one after Reset.
struct EpisodeCourse {
  double first_reward = 0.0;  // of step 1
  double last_reward = 0.0;
  int best_step = 0;  // the first one of the highest reward; 0: no step was executed
  /// The last step above half way from the first to the highest reward, when the episode ended
  /// below that.
  std::optional<int> lost_step;
  bool is_terminated = false;  // the env ended the episode, not the limit of steps
  /// The first step whose observation left the range of the training data, of those that the policy
  /// was shown, and which key of it.
  std::optional<int> unseen_step;
  std::string unseen_key;

  bool operator==(const EpisodeCourse&) const = default;
};

/// Keeps the course of one episode after the other.
class EpisodeCourseKeeper {
 public:
  /// Both must outlive it. Keys of `keys` without a range are not judged.
  EpisodeCourseKeeper(std::span<const KeySpec> keys, const ObsRanges& ranges);

  void Start();
  void AddStep(double reward, bool is_terminated);

  /// Key `key` as observed after the steps so far, in host layout.
  void AddObservation(int key, std::span<const std::byte> frame);

  EpisodeCourse course() const;

 private:
  double HalfWay() const { return 0.5 * (course_.first_reward + best_reward_); }

  std::span<const KeySpec> keys_;
  std::vector<const ObsRange*> ranges_;  // per key; null: not judged
  EpisodeCourse course_;
  int n_steps_ = 0;
  double best_reward_ = 0.0;
  int last_above_ = 0;  // the last step above half way
};

}  // namespace dp_bench
