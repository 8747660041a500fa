// The section `env_runner` of a config: how many episodes, on which seeds, and what is filmed.
// Field names are those of diffusion_policy's env runners.
#pragma once

#include <cstdint>

#include "dp_bench/config.h"

namespace dp_bench::run {

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

}  // namespace dp_bench::run
