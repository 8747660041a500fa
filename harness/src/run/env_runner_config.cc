#include "run/env_runner_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::run {
namespace {

constexpr int kMaxEpisodes = 1'000'000;
constexpr int kMaxParallel = 4096;
constexpr int kMaxVideoSize = 4096;  // [px]
constexpr std::int64_t kLargestStartSeed = std::numeric_limits<std::int64_t>::max();
constexpr double kMaxSpeed = 1000.0;
constexpr double kMaxLatency = 1.0e6;  // [ms]

int ReadInt(const Config& config, std::string_view key, int default_value, int low, int high,
            const KeyMeaning& meaning) {
  return static_cast<int>(config.GetInRange(key, std::int64_t{default_value}, low, high, meaning));
}

constexpr KeyMeaning kRealtimeMeaning =
    "true: the env does not wait while the policy plans. A number: the same, and simulated time "
    "runs this many times faster";

// Far enough from the end of the numbers for the seeds that follow.
std::uint64_t ReadStartSeed(const Config& config, std::string_view key, std::uint64_t fallback,
                            const char* meaning) {
  return static_cast<std::uint64_t>(config.GetInRange(key, static_cast<std::int64_t>(fallback),
                                                      std::int64_t{0}, kLargestStartSeed, meaning));
}

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
  const EnvRunnerConfig defaults;
  EnvRunnerConfig c;
  c.n_train =
      ReadInt(config, "n_train", defaults.n_train, 0, kMaxEpisodes, "episodes of the split train");
  c.n_test =
      ReadInt(config, "n_test", defaults.n_test, 0, kMaxEpisodes, "episodes of the split test");
  c.train_start_seed = ReadStartSeed(config, "train_start_seed", defaults.train_start_seed,
                                     "seed of the first train episode; the others follow");
  c.test_start_seed =
      ReadStartSeed(config, "test_start_seed", defaults.test_start_seed,
                    "seed of the first test episode in `eval` and in the report of `run`");
  c.selection_start_seed = ReadStartSeed(
      config, "selection_start_seed", defaults.selection_start_seed,
      "seed of the first test episode in the evaluations of a training, which choose checkpoints");
  c.n_envs = ReadInt(config, "n_envs", defaults.n_envs, 0, kMaxParallel,
                     "env instances; 0 = two micro-batches of them");
  c.n_workers = ReadInt(config, "n_workers", defaults.n_workers, 0, kMaxParallel,
                        "threads that step the envs; 0 = one per hardware thread");
  c.n_videos = ReadInt(config, "n_videos", defaults.n_videos, 0, kMaxEpisodes,
                       "filmed episodes of each split");
  c.max_steps = ReadInt(config, "max_steps", defaults.max_steps, 0, std::numeric_limits<int>::max(),
                        "steps of an episode at most; 0 = the env's limit");
  c.micro_batch = ReadInt(config, "micro_batch", defaults.micro_batch, 1, kMaxParallel,
                          "constant batch size of the policy; part of the outcome");
  c.check_batch_invariance = config.Get<bool>(
      "check_batch_invariance", defaults.check_batch_invariance,
      "check before each evaluation that the rows of a batch do not affect each other");
  c.record_traces = config.Get<bool>("record_traces", defaults.record_traces,
                                     "keep every step of every episode in `traces/`");
  c.certify = config.Get<bool>("certify", defaults.certify,
                               "check before `eval` that the env's outcomes are a function of the "
                               "seed, and note it in the manifest");
  c.score_metric = config.GetOptional<std::string>(
      "score_metric", "metric of the env that is an episode's score; null = its highest reward");
  c.realtime = ReadRealtime(config);
  c.realtime_latency_ms =
      config.GetInRange("realtime_latency_ms", defaults.realtime_latency_ms, 0.0, kMaxLatency,
                        "how long one plan takes, in ms; 0 = measured by `eval`");
  c.crf =
      ReadInt(config, "crf", defaults.crf, 0, 51, "H.264 quality of films: 0 lossless, 51 worst");

  const auto size = config.Get<std::vector<std::int64_t>>(
      "video_size", {defaults.video_width, defaults.video_height},
      "[width, height] of films in pixels");
  if (size.size() != 2 || std::ranges::min(size) < 1 || std::ranges::max(size) > kMaxVideoSize) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} is [{}]; expected [width, height], each 1 to {}",
                            config.Where("video_size"), fmt::join(size, ", "), kMaxVideoSize));
  }
  c.video_width = static_cast<int>(size[0]);
  c.video_height = static_cast<int>(size[1]);
  c.video_overlay =
      config.Get<bool>("video_overlay", defaults.video_overlay,
                       "films show the planned chunk, the executed path, step and score");
  return c;
}

EnvRunnerConfig EnvRunnerConfig::ForALook(const Config& env_runner, int n_test) {
  EnvRunnerConfig config = FromConfig(env_runner);
  config.n_train = 0;
  config.n_test = n_test;
  config.n_videos = 0;
  config.record_traces = false;
  config.check_batch_invariance = false;
  if (config.realtime_latency_ms == 0.0) config.realtime = 0.0;
  return config;
}

}  // namespace dp_bench::run
