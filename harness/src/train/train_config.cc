// Typed reads of the sections of train_config.h.
#include "train/train_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench {
namespace {

constexpr std::int64_t kMaxCount = std::numeric_limits<int>::max();

int GetCount(const Config& config, std::string_view key, int default_value, int low) {
  return static_cast<int>(
      config.GetInRange(key, std::int64_t{default_value}, std::int64_t{low}, kMaxCount));
}

}  // namespace

TrainingConfig TrainingConfig::FromConfig(const Config& config) {
  TrainingConfig c;
  c.seed = config.Get<std::uint64_t>("seed", c.seed);
  c.device = config.Get<std::string>("device", c.device);
  c.num_epochs = GetCount(config, "num_epochs", c.num_epochs, 0);
  c.resume = config.Get<bool>("resume", c.resume);
  c.lr_schedule = LrScheduleConfig::FromConfig(config);
  c.gradient_accumulate_every = config.GetInRange(
      "gradient_accumulate_every", c.gradient_accumulate_every, std::int64_t{1}, kMaxCount);
  c.max_grad_norm = config.GetInRange("max_grad_norm", c.max_grad_norm, 0.0, 1e30);
  c.use_ema = config.Get<bool>("use_ema", c.use_ema);
  c.rollout_every = GetCount(config, "rollout_every", c.rollout_every, 0);
  c.checkpoint_every = GetCount(config, "checkpoint_every", c.checkpoint_every, 0);
  c.val_every = GetCount(config, "val_every", c.val_every, 0);
  c.sample_every = GetCount(config, "sample_every", c.sample_every, 0);
  c.max_train_steps = config.GetOptional<std::int64_t>("max_train_steps");
  c.max_val_steps = config.GetOptional<std::int64_t>("max_val_steps");
  c.max_minutes = config.GetOptional<double>("max_minutes");
  if (config.Has("early_stop")) {
    c.early_stop = EarlyStopConfig::FromConfig(config.Sub("early_stop"));
  }
  c.debug = config.Get<bool>("debug", c.debug);
  if (c.debug) {
    c.num_epochs = 2;
    c.max_train_steps = 3;
    c.max_val_steps = 3;
    c.rollout_every = c.checkpoint_every = c.val_every = c.sample_every = 1;
  }
  return c;
}

DataLoaderConfig DataLoaderConfig::FromConfig(const Config& config, bool shuffle_default) {
  DataLoaderConfig c;
  c.batch_size = config.GetInRange("batch_size", c.batch_size, std::int64_t{1}, kMaxCount);
  c.num_workers = GetCount(config, "num_workers", c.num_workers, 0);
  c.shuffle = config.Get<bool>("shuffle", shuffle_default);
  return c;
}

SplitConfig SplitConfig::FromConfig(const Config& config) {
  SplitConfig c;
  c.val_ratio = config.GetInRange("val_ratio", c.val_ratio, 0.0, 1.0);
  c.seed = config.Get<std::uint64_t>("seed", c.seed);
  c.max_train_episodes = config.GetOptional<std::int64_t>("max_train_episodes");
  return c;
}

CheckpointConfig CheckpointConfig::FromConfig(const Config& config) {
  CheckpointConfig c;
  c.topk = TopKConfig::FromConfig(config.Sub("topk"));
  c.save_last_ckpt = config.Get<bool>("save_last_ckpt", c.save_last_ckpt);
  c.background = config.Get<bool>("background", c.background);
  return c;
}

LoggingConfig LoggingConfig::FromConfig(const Config& config) {
  LoggingConfig c;
  c.tensorboard = config.Get<bool>("tensorboard", c.tensorboard);
  c.every = GetCount(config, "every", c.every, 1);
  c.histogram_every = GetCount(config, "histogram_every", c.histogram_every, 0);
  return c;
}

NormalizerConfig NormalizerConfig::FromConfig(const Config& config) {
  NormalizerConfig c;
  c.default_mode = config.GetChoice("default", {"limits", "gaussian", "identity"});
  c.default_rgb = config.GetChoice("default_rgb", {"image", "image_gaussian"});
  const std::vector<double> range =
      config.Get("depth_range", std::vector<double>(c.depth_range.begin(), c.depth_range.end()));
  if (range.size() != 2 || range[0] < 0.0 || range[0] >= range[1]) {
    throw Error(ErrorCode::kConfig, fmt::format("{} is {}; wanted [nearest, farthest] in metres",
                                                config.Where("depth_range"), range));
  }
  c.depth_range = {range[0], range[1]};
  for (const std::string& key : config.Keys()) {
    if (key != "default" && key != "default_rgb" && key != "depth_range")
      c.modes[key] = config.Get<std::string>(key);
  }
  return c;
}

}  // namespace dp_bench
