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
constexpr double kMaxSpeed = 1000.0;
constexpr double kMaxLatency = 1.0e6;  // [ms]

int ReadInt(const Config& config, std::string_view key, int default_value, int low, int high) {
  return static_cast<int>(config.GetInRange(key, std::int64_t{default_value}, low, high));
}

// false, true or a factor.
double ReadRealtime(const Config& config) {
  const auto section = nlohmann::json::parse(config.ToJson());
  const auto value = section.find("realtime");
  if (value == section.end() || value->is_boolean()) {
    return config.Get<bool>("realtime", false) ? 1.0 : 0.0;
  }
  return config.GetInRange("realtime", 0.0, 0.0, kMaxSpeed);
}

}  // namespace

EnvRunnerConfig EnvRunnerConfig::FromConfig(const Config& config) {
  const EnvRunnerConfig defaults;
  EnvRunnerConfig c;
  c.n_train = ReadInt(config, "n_train", defaults.n_train, 0, kMaxEpisodes);
  c.n_test = ReadInt(config, "n_test", defaults.n_test, 0, kMaxEpisodes);
  c.train_start_seed = config.Get<std::uint64_t>("train_start_seed", defaults.train_start_seed);
  c.test_start_seed = config.Get<std::uint64_t>("test_start_seed", defaults.test_start_seed);
  c.selection_start_seed =
      config.Get<std::uint64_t>("selection_start_seed", defaults.selection_start_seed);
  c.n_envs = ReadInt(config, "n_envs", defaults.n_envs, 0, kMaxParallel);
  c.n_workers = ReadInt(config, "n_workers", defaults.n_workers, 0, kMaxParallel);
  c.n_videos = ReadInt(config, "n_videos", defaults.n_videos, 0, kMaxEpisodes);
  c.max_steps =
      ReadInt(config, "max_steps", defaults.max_steps, 0, std::numeric_limits<int>::max());
  c.micro_batch = ReadInt(config, "micro_batch", defaults.micro_batch, 1, kMaxParallel);
  c.check_batch_invariance =
      config.Get<bool>("check_batch_invariance", defaults.check_batch_invariance);
  c.record_traces = config.Get<bool>("record_traces", defaults.record_traces);
  c.realtime = ReadRealtime(config);
  c.realtime_latency_ms =
      config.GetInRange("realtime_latency_ms", defaults.realtime_latency_ms, 0.0, kMaxLatency);
  c.crf = ReadInt(config, "crf", defaults.crf, 0, 51);

  const auto size = config.Get<std::vector<std::int64_t>>(
      "video_size", {defaults.video_width, defaults.video_height});
  if (size.size() != 2 || std::ranges::min(size) < 1 || std::ranges::max(size) > kMaxVideoSize) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{} is [{}]; wanted [width, height], each 1 to {}",
                            config.Where("video_size"), fmt::join(size, ", "), kMaxVideoSize));
  }
  c.video_width = static_cast<int>(size[0]);
  c.video_height = static_cast<int>(size[1]);
  c.video_overlay = config.Get<bool>("video_overlay", defaults.video_overlay);
  return c;
}

}  // namespace dp_bench::run
