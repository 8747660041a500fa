// What the EnvRunner is asked to run and what it reports: one row per episode, failed ones
// included.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/spec.h"
#include "run/obs_ranges.h"

namespace dp_bench::run {

// How an episode went, in a few numbers that are kept while it runs: enough to tell one way of
// failing from another, and to say when it began.

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

/// One episode to run.
struct EpisodeJob {
  int episode = 0;    // its place in the seed list
  std::string split;  // "train" or "test"
  std::uint64_t seed = 0;
  bool is_filmed = false;
};

/// The outcome of one episode. Everything but the wall time is a function of (checkpoint, env,
/// seed, micro-batch size).
struct EpisodeRecord {
  int episode = 0;
  std::string split;
  std::uint64_t seed = 0;
  double score = 0.0;      // highest reward of any step; 0 when the episode failed
  bool success = false;    // any step reported success, and the episode did not fail
  int n_steps = 0;         // executed steps
  int n_stale_steps = 0;   // of them while the policy thought; see EnvRunnerConfig::realtime
  std::string trace_hash;  // SHA-256 of actions, rewards, flags, metrics and observations
  std::vector<double>
      metrics;  // aggregated as EnvSpec::metrics says; empty when no step was executed
  std::optional<std::string> failure_reason;
  std::optional<EpisodeCourse> course;  // rows of older versions have none
  std::string video;                    // relative to the output folder; empty when there is none
  std::string video_error;              // why an episode that was to be filmed has no video
  double wall_s = 0.0;
};

/// SHA-256 over what a re-run must reproduce: everything but the video and the wall time; of the
/// course only what the trace hash covers.
std::string HashRecords(std::span<const EpisodeRecord> records);

/// The numbers of one split. Failed episodes count as attempted, with score 0.
struct SplitSummary {
  int n_episodes = 0;
  int n_success = 0;
  int n_failed = 0;
  std::int64_t n_steps = 0;
  std::int64_t n_stale_steps = 0;
  double mean_score = 0.0;    // 0 without episodes
  double success_rate = 0.0;  // n_success / n_episodes
};

SplitSummary Summarize(std::span<const EpisodeRecord> records, std::string_view split);

}  // namespace dp_bench::run
