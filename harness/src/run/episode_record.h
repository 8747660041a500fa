// Jobs for the EnvRunner and their results: one record per episode, including failed ones.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/spec.h"

namespace dp_bench::run {

/// The range of the observations in the training data: of one low-dimensional key, per element in
/// storage order. The policy never saw anything outside.
struct ObsRange {
  std::vector<double> low;
  std::vector<double> high;

  /// Whether any element is outside of its range by more than 5 % of the range. For an element that
  /// is constant in the data the margin is 1e-3 of its size, and at least 1e-3. NaN is outside.
  bool IsLeftBy(std::span<const float> values) const;
};

/// By observation key. Missing keys are not checked.
using ObsRanges = std::map<std::string, ObsRange, std::less<>>;

// A few numbers about the course of an episode, updated while it runs. They tell kinds of failure
// apart and say when a failure began.

/// Step k is the state after k executed steps; 0 is the state after Reset.
struct EpisodeCourse {
  double first_reward = 0.0;  // of step 1
  double last_reward = 0.0;
  int best_step = 0;  // the first step with the highest reward; 0: no step was executed
  /// The highest reward, if the score is a metric of the env (env_runner.score_metric). None: the
  /// score is the highest reward, or the row is of an older version.
  std::optional<double> best_reward;
  /// The last step with a reward above the midpoint of the first and the highest reward, if the
  /// episode ended below the midpoint.
  std::optional<int> lost_step;
  bool is_terminated = false;  // by the env, not by the step limit
  /// The first observation given to the policy that is outside the range of the training data: its
  /// step, and the key.
  std::optional<int> unseen_step;
  std::string unseen_key;
  /// 16 hex digits of the SHA-256 of the first observation, of the keys that the policy reads.
  /// Empty in rows of older versions, and without an observation.
  std::string first_obs;

  bool operator==(const EpisodeCourse&) const = default;
};

/// When the env reported success. Steps count from 1; all 0: never, or a row of an older version.
struct SuccessSteps {
  int first = 0;    // the first step with success
  int longest = 0;  // the most steps in a row with success
  int at_end = 0;   // the last steps in a row with success; 0: not at the end

  /// The next step is `step`.
  void Add(int step, bool is_success);

  bool operator==(const SuccessSteps&) const = default;
};

/// Tracks the course of one episode at a time.
class EpisodeCourseKeeper {
 public:
  /// Both must outlive this object. Keys without a range are not checked.
  EpisodeCourseKeeper(std::span<const KeySpec> keys, const ObsRanges& ranges);

  void Start();
  void AddStep(double reward, bool is_terminated);

  /// Key `key` as observed after the steps so far, in host layout.
  void AddObservation(int key, std::span<const std::byte> frame);

  EpisodeCourse course() const;
  double best_reward() const { return best_reward_; }  // 0 without a step

 private:
  double HalfWay() const { return 0.5 * (course_.first_reward + best_reward_); }

  std::span<const KeySpec> keys_;
  std::vector<const ObsRange*> ranges_;  // per key; null: not checked
  EpisodeCourse course_;
  int n_steps_ = 0;
  double best_reward_ = 0.0;
  int last_above_ = 0;  // the last step above the midpoint
};

/// One episode to run.
struct EpisodeJob {
  int episode = 0;    // index in the seed list
  std::string split;  // "train" or "test"
  std::uint64_t seed = 0;
  bool has_video = false;
};

/// The outcome of one episode. Everything except the wall time is a function of (checkpoint, env,
/// seed, micro-batch size).
struct EpisodeRecord {
  int episode = 0;
  std::string split;
  std::uint64_t seed = 0;
  // highest reward of any step, or the metric env_runner.score_metric; at most 0 if the episode
  // failed
  double score = 0.0;
  bool success = false;   // any step reported success, and the episode did not fail
  int n_steps = 0;        // executed
  int n_stale_steps = 0;  // of these, during planning; see EnvRunnerConfig::realtime
  int n_plans = 0;        // after the first, which the world waits for
  int n_late_plans = 0;   // of these, after the old chunk had ended: its last action was held
  // mean jerk of the actions where chunks follow one another, and of the others; see ActionJerk
  double jerk_at_seams = 0.0;
  double jerk_elsewhere = 0.0;
  std::string trace_hash;       // SHA-256 of actions, rewards, flags, metrics and observations
  std::vector<double> metrics;  // aggregated as in EnvSpec::metrics; empty if no step was executed
  std::optional<std::string> failure_reason;
  SuccessSteps success_steps;           // zeros if the episode failed
  std::optional<EpisodeCourse> course;  // none in rows of older versions
  std::string video;                    // relative to the output folder; empty: none
  std::string video_error;              // why no video was recorded
  double wall_s = 0.0;

  bool has_failed() const { return failure_reason.has_value(); }
};

/// Results of one split. Failed episodes count, with the score 0 or their own if that is lower.
struct SplitSummary {
  int n_episodes = 0;
  int n_success = 0;
  int n_failed = 0;         // that have a failure_reason
  int n_policy_faults = 0;  // of those, because a remote policy gave no actions
  std::int64_t n_steps = 0;
  std::int64_t n_stale_steps = 0;
  std::int64_t n_plans = 0;
  std::int64_t n_late_plans = 0;
  double mean_score = 0.0;    // 0 without episodes
  double success_rate = 0.0;  // n_success / n_episodes
};

/// Whether a remote policy gave no actions (remote/policy_client.h): such an episode says nothing
/// about the policy.
bool IsPolicyFault(std::string_view failure_reason);

SplitSummary Summarize(std::span<const EpisodeRecord> records, std::string_view split);

/// Of a run of the EnvRunner.
struct RunProgress {
  int n_done = 0;
  int n_episodes = 0;
  int n_failed = 0;
  double mean_score = 0.0;  // of the finished episodes
  std::int64_t n_env_steps = 0;
};

/// How a caller observes or stops a run. Each may be empty.
struct RunHooks {
  std::function<void(const RunProgress&)> progress = {};      // on the calling thread
  const std::atomic<bool>* stop = nullptr;                    // once set, no further plan starts
  std::function<void(const EpisodeRecord&)> on_episode = {};  // when an episode ends, on any thread
  /// The next episode to start, as a place in the list of those to run; nothing: no more. For
  /// several processes that share a list. By default all are started, in order. Called on any
  /// thread, one at a time.
  std::function<std::optional<std::size_t>()> next = {};
};

struct RunResult {
  std::vector<EpisodeRecord> records;     // in seed list order, train first
  std::vector<std::string> metric_names;  // for EpisodeRecord::metrics
  std::int64_t n_env_steps = 0;
  std::int64_t n_plans = 0;  // micro-batches planned
  double plan_s = 0.0;       // in the planner
  double wall_s = 0.0;
  bool is_interrupted = false;  // records has only the finished episodes
};

}  // namespace dp_bench::run
