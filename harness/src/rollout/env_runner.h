// Runs a policy in many environments at once and reports every episode. Field names are those of
// diffusion_policy's env runners.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dp_bench/config.h"
#include "dp_bench/env.h"
#include "dp_bench/spec.h"
#include "rollout/chunk_planner.h"
#include "rollout/episode_record.h"
#include "rollout/episode_slot.h"
#include "rollout/run_result.h"

namespace dp_bench {

struct EnvRunnerConfig {
  int n_train = 6;  // seeds train_start_seed, train_start_seed + 1, ...
  int n_test = 50;
  std::uint64_t train_start_seed = 0;
  std::uint64_t test_start_seed = 100000;
  /// In place of test_start_seed in the evaluations during a training, so that the seeds by which
  /// checkpoints are chosen are not those of the report.
  std::uint64_t selection_start_seed = 200000;
  int n_envs = 0;        // env instances; 0: two micro-batches, so that some step while others plan
  int n_workers = 0;     // threads that step them; 0: one per hardware thread
  int n_videos = 4;      // the first n_videos episodes of each split are filmed
  int max_steps = 0;     // 0: as the env says
  int micro_batch = 16;  // M, the constant batch size of the policy; part of the outcome
  bool check_batch_invariance = true;
  int video_width = 256;
  int video_height = 256;
  bool video_overlay = true;   // plan, path, step and score are drawn into the videos
  bool record_traces = false;  // each step of each episode in `output_dir`/traces
  /// Simulated seconds that pass per second of the policy's thinking, 0: none do. 1 is a robot's
  /// case. The env steps that a plan takes are ceil(realtime_latency_ms / 1000 * control_hz *
  /// realtime); what is executed in them is written at ActionQueue.
  double realtime = 0.0;
  double realtime_latency_ms = 0.0;  // of one plan; a given number, so that outcomes are repeatable
  int crf = 22;                      // H.264 quality: 0 lossless ... 51 worst

  /// Reads the keys above from `env_runner`; the video size is "video_size": [width, height],
  /// "realtime" also true and false.
  static EnvRunnerConfig FromConfig(const Config& env_runner);
};

/// Workers step the envs while the calling thread plans, without a barrier between batches: whoever
/// is ready is planned for next. The outcome of an episode depends on neither workers, nor envs,
/// nor order; a failing episode becomes a record and touches no other.
class EnvRunner {
 public:
  /// Creates one env, which Run uses too, to compare: every key of `shape_meta` must be offered by
  /// the env with the same type, dtype and shape, else Error{kShape} lists both sides. Videos go to
  /// `output_dir`/media. Throws Error{kConfig} for `realtime` without a latency.
  EnvRunner(const EnvRunnerConfig& config, EnvFactory env_factory, const ShapeMeta& shape_meta,
            const Horizons& horizons, std::filesystem::path output_dir);
  ~EnvRunner();

  /// The seed list: n_train train episodes, then n_test test episodes.
  const std::vector<EpisodeJob>& jobs() const { return jobs_; }

  /// Where the observations of the policy's training data lie, by which its episodes are judged
  /// (EpisodeCourse); without it no observation is. No outcome depends on it. Between two runs.
  void SetObsRanges(ObsRanges ranges);

  const EnvSpec& env_spec() const { return plan_->env; }
  std::vector<std::string> metric_names() const;  // of EpisodeRecord::metrics

  /// What the first plan of the episode at this place of the seed list is made from, in an env of
  /// its own; none when its reset fails.
  std::optional<RecordedObs> FirstObservation(int episode) const;

  /// Runs the whole seed list. Stopped before its end, the result is marked as interrupted. Throws
  /// Error{kNumeric} when the planner turns out not to be batch-invariant, and what a hook throws.
  RunResult Run(ChunkPlanner& planner, const RunHooks& hooks = {});

  /// Runs only the episodes with these places in the seed list, started in the order given; the
  /// records are sorted by place all the same.
  RunResult Run(ChunkPlanner& planner, std::span<const int> episodes, const RunHooks& hooks = {});

 private:
  const EpisodeJob& JobAt(int episode) const;

  EnvRunnerConfig config_;
  std::unique_ptr<RolloutPlan> plan_;
  std::vector<EpisodeJob> jobs_;
  std::vector<std::unique_ptr<EpisodeSlot>> slots_;  // kept, so that a later Run finds warm envs
};

}  // namespace dp_bench
