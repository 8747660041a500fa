#include "control/env_runner_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/errors.h"
#include "dp_bench/config_keys.h"

namespace dp_bench::control {
namespace {

constexpr int kMaxEpisodes = 1'000'000;
constexpr int kMaxParallel = 4096;
constexpr int kMaxVideoSize = 4096;  // [px]
// far enough from the end of the numbers for the seeds that follow
constexpr std::int64_t kLargestStartSeed = std::numeric_limits<std::int64_t>::max();
constexpr double kMaxSpeed = 1000.0;
constexpr double kMaxLatency = 1.0e6;  // [ms]

constexpr KeyMeaning kRealtimeMeaning =
    "true: the env does not wait while the policy plans. A number: the same, and simulated time "
    "runs this many times faster";

// false, true or a factor.
double ReadRealtime(const Config& config) {
  const auto section = nlohmann::json::parse(config.ToJson());
  const auto value = section.find("realtime");
  if (value == section.end() || value->is_boolean()) {
    return config.Get<bool>("realtime", false, kRealtimeMeaning) ? 1.0 : 0.0;
  }
  return config.GetInRange("realtime", 0.0, 0.0, kMaxSpeed, kRealtimeMeaning);
}

}  // namespace

EnvRunnerConfig EnvRunnerConfig::FromConfig(const Config& config) {
  EnvRunnerConfig c;
  const ConfigKeys keys(config);
  keys("n_train", &c.n_train, 0, kMaxEpisodes, "episodes of the split train");
  keys("n_test", &c.n_test, 0, kMaxEpisodes, "episodes of the split test");
  keys("n_selection", &c.n_selection, 0, kMaxEpisodes,
       "the same in the evaluations of a training; none: as many as n_test");
  keys("train_start_seed", &c.train_start_seed, 0, kLargestStartSeed,
       "seed of the first train episode; the others follow");
  keys("test_start_seed", &c.test_start_seed, 0, kLargestStartSeed,
       "seed of the first test episode in `eval` and in the report of `run`");
  keys("selection_start_seed", &c.selection_start_seed, 0, kLargestStartSeed,
       "seed of the first test episode in the evaluations of a training, which choose checkpoints");
  keys("n_envs", &c.n_envs, 0, kMaxParallel, "env instances; 0 = two micro-batches of them");
  keys("n_workers", &c.n_workers, 0, kMaxParallel,
       "threads that step the envs; 0 = one per usable processor");
  keys("n_videos", &c.n_videos, 0, kMaxEpisodes,
       "episodes of each split of which a video is recorded");
  keys("max_steps", &c.max_steps, 0, std::numeric_limits<int>::max(),
       "steps of an episode at most; 0 = the env's limit");
  keys("micro_batch", &c.micro_batch, 1, kMaxParallel,
       "constant batch size of the policy; part of the outcome");
  keys("check_batch_invariance", &c.check_batch_invariance,
       "check before each evaluation that the rows of a batch do not affect each other");
  keys("record_traces", &c.record_traces, "keep every step of every episode in `traces/`");
  keys("record_plans", &c.record_plans,
       "keep in `plans/` what the policy was asked and what it answered, up to 1 GiB, for "
       "`dp_bench diff`");
  keys("certify", &c.certify,
       "check before `eval` and in `run` that the env's outcomes are a function of the seed, and "
       "note it in the manifest");
  keys("score_metric", &c.score_metric,
       "metric of the env that is an episode's score; null = its highest reward");
  c.realtime = ReadRealtime(config);
  keys("realtime_latency_ms", &c.realtime_latency_ms, 0.0, kMaxLatency,
       "how long one plan takes, in ms; 0 = measured by `eval`");
  c.chunking = ChunkingConfig::FromConfig(config.Sub("chunking"));
  if (c.realtime > 0.0 && (c.chunking.delay > 0 || c.chunking.latency.is_random())) {
    throw ConfigError(
        "{} and {}: each says how long a plan takes; expected one of them, found both",
        config.Where("realtime"),
        config.Where(c.chunking.delay > 0 ? "chunking.delay" : "chunking.latency"));
  }
  keys("crf", &c.crf, 0, 51, "H.264 quality of videos: 0 lossless, 51 worst");

  const auto size = config.Get<std::vector<std::int64_t>>(
      "video_size", {c.video_width, c.video_height}, "[width, height] of videos in pixels");
  if (size.size() != 2 || std::ranges::min(size) < 1 || std::ranges::max(size) > kMaxVideoSize) {
    throw ConfigError("{} is [{}]; expected [width, height], each 1 to {}",
                      config.Where("video_size"), fmt::join(size, ", "), kMaxVideoSize);
  }
  c.video_width = static_cast<int>(size[0]);
  c.video_height = static_cast<int>(size[1]);
  keys("video_overlay", &c.video_overlay,
       "videos show the planned chunk, the executed path, step and score");
  return c;
}

EnvRunnerConfig EnvRunnerConfig::ForALook(const Config& env_runner, int n_test) {
  EnvRunnerConfig config = FromConfig(env_runner);
  config.n_train = 0;
  config.n_test = n_test;
  config.n_videos = 0;
  config.record_traces = false;
  config.record_plans = false;
  config.check_batch_invariance = false;
  if (config.realtime_latency_ms == 0.0) config.realtime = 0.0;
  LatencyModel& latency = config.chunking.latency;
  if (latency.samples_ms.empty() && latency.file) latency = {};  // only `eval` reads the file
  return config;
}

}  // namespace dp_bench::control
