// What the EnvRunner is asked to run and what it reports: one row per episode, failed ones
// included.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rollout/episode_course.h"

namespace dp_bench {

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

}  // namespace dp_bench
