// The section `env_runner` of a config: how many episodes, which seeds, and of which a video is
// recorded. Field names are those of diffusion_policy's env runners.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "control/chunking_config.h"
#include "dp_bench/config.h"

namespace dp_bench::control {

struct EnvRunnerConfig {
  int n_train = 6;
  int n_test = 50;
  std::optional<int> n_selection;
  std::uint64_t train_start_seed = 0;
  std::uint64_t test_start_seed = 100000;
  std::uint64_t selection_start_seed = 200000;
  int n_envs = 0;
  int n_workers = 0;
  int n_videos = 4;
  int max_steps = 0;
  int micro_batch = 16;
  bool check_batch_invariance = true;
  int video_width = 256;
  int video_height = 256;
  bool video_overlay = true;
  bool record_traces = false;
  bool record_plans = false;
  bool certify = false;
  /// The env's metric that is an episode's score. Nothing: its highest reward.
  std::optional<std::string> score_metric;
  /// Simulated seconds per second of planning. 0: the env waits for the policy. 1: as on a robot. A
  /// plan takes ceil(realtime_latency_ms / 1000 * control_hz * realtime) env steps; ActionQueue
  /// says what is executed in them.
  double realtime = 0.0;
  double realtime_latency_ms = 0.0;
  ChunkingConfig chunking;
  int crf = 22;

  static EnvRunnerConfig FromConfig(const Config& env_runner);

  /// For a look at the first `n_test` test episodes: no videos, traces and checks. The env waits
  /// for the policy unless its latency is given, because only eval measures it.
  static EnvRunnerConfig ForALook(const Config& env_runner, int n_test);
};

}  // namespace dp_bench::control
