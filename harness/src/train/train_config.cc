// Typed reads of the sections of train_config.h.
#include "train/train_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "dp_bench/error.h"

namespace dp_bench::train {
namespace {

constexpr std::int64_t kMaxCount = std::numeric_limits<int>::max();
constexpr std::int64_t kMaxThreads = 4096;

int GetCount(const Config& config, std::string_view key, int default_value, int low) {
  return static_cast<int>(
      config.GetInRange(key, std::int64_t{default_value}, std::int64_t{low}, kMaxCount));
}

constexpr const char* kModelPart = "model";
constexpr const char* kEmaPart = "ema";
constexpr const char* kOptimizerPart = "optimizer";

/// A list of parts of a checkpoint.
std::vector<std::string> GetParts(const Config& config, std::string_view key,
                                  const std::vector<std::string>& default_value) {
  const std::vector<std::string> all = {kModelPart, kEmaPart, kOptimizerPart};
  std::vector<std::string> parts = config.Get(key, default_value);
  for (const std::string& part : parts) {
    if (std::ranges::find(all, part) != all.end()) continue;
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: '{}' is not a selectable part of a checkpoint; the parts are {}",
                            config.Where(key), part, fmt::join(all, ", ")));
  }
  return parts;
}

/// A number of at least `low`; none if the key is absent or null.
std::optional<std::int64_t> GetOptionalCount(const Config& config, std::string_view key,
                                             std::int64_t low) {
  if (!config.GetOptional<std::int64_t>(key)) return std::nullopt;
  return config.GetInRange(key, low, low, std::numeric_limits<std::int64_t>::max());
}

/// Refuses 0 as well as negative numbers: no training is possible in no time.
std::optional<double> GetMaxMinutes(const Config& config) {
  const auto minutes = config.GetOptional<double>("max_minutes");
  if (!minutes || *minutes > 0.0) return minutes;
  throw Error(ErrorCode::kConfig,
              fmt::format("{}: expected more than 0 minutes, or null for no limit, found {}",
                          config.Where("max_minutes"), *minutes));
}

MixedPrecision GetMixedPrecision(const Config& config) {
  const std::string name = config.GetChoice("mixed_precision", {"no", "bf16", "fp16"});
  if (name == "bf16") return MixedPrecision::kBf16;
  return name == "fp16" ? MixedPrecision::kFp16 : MixedPrecision::kNo;
}

}  // namespace

InitCheckpointConfig InitCheckpointConfig::FromConfig(const Config& config) {
  InitCheckpointConfig c;
  c.path = config.Get<std::string>("path");
  c.weights = config.GetChoice("weights", {"ema", "model"});
  c.normalizer = config.Get<bool>("normalizer", c.normalizer);
  c.tensors.include_keys = config.Get("include_keys", c.tensors.include_keys);
  c.tensors.exclude_keys = config.Get("exclude_keys", c.tensors.exclude_keys);
  return c;
}

TrainingConfig TrainingConfig::FromConfig(const Config& config) {
  TrainingConfig c;
  c.seed = config.Get<std::uint64_t>("seed", c.seed);
  c.device = config.Get<std::string>("device", c.device);
  c.num_epochs = GetCount(config, "num_epochs", c.num_epochs, 0);
  c.resume = config.Get<bool>("resume", c.resume);
  c.lr_schedule = LrScheduleConfig::FromConfig(config);
  c.mixed_precision = GetMixedPrecision(config);
  c.gradient_accumulate_every = config.GetInRange(
      "gradient_accumulate_every", c.gradient_accumulate_every, std::int64_t{1}, kMaxCount);
  c.max_grad_norm = config.GetInRange("max_grad_norm", c.max_grad_norm, 0.0, 1e30);
  c.use_ema = config.Get<bool>("use_ema", c.use_ema);
  c.rollout_every = GetCount(config, "rollout_every", c.rollout_every, 0);
  c.checkpoint_every = GetCount(config, "checkpoint_every", c.checkpoint_every, 0);
  c.val_every = GetCount(config, "val_every", c.val_every, 0);
  c.sample_every = GetCount(config, "sample_every", c.sample_every, 0);
  c.max_train_steps = GetOptionalCount(config, "max_train_steps", 1);
  c.max_val_steps = GetOptionalCount(config, "max_val_steps", 1);
  c.max_minutes = GetMaxMinutes(config);
  if (config.Has("early_stop")) {
    c.early_stop = EarlyStopConfig::FromConfig(config.Sub("early_stop"));
  }
  if (config.Has("init_checkpoint")) {
    c.init_checkpoint = InitCheckpointConfig::FromConfig(config.Sub("init_checkpoint"));
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
  c.num_workers = static_cast<int>(
      config.GetInRange("num_workers", std::int64_t{c.num_workers}, std::int64_t{0}, kMaxThreads));
  c.shuffle = config.Get<bool>("shuffle", shuffle_default);
  return c;
}

SplitConfig SplitConfig::FromConfig(const Config& config) {
  SplitConfig c;
  c.val_ratio = config.GetInRange("val_ratio", c.val_ratio, 0.0, 1.0);
  c.seed = config.Get<std::uint64_t>("seed", c.seed);
  c.max_train_episodes = GetOptionalCount(config, "max_train_episodes", 1);
  return c;
}

CheckpointParts CheckpointParts::FromConfig(const Config& config) {
  const auto included = GetParts(config, "include_keys", {kModelPart, kEmaPart, kOptimizerPart});
  const auto excluded = GetParts(config, "exclude_keys", {});
  const auto has = [&](const char* part) {
    return std::ranges::find(included, part) != included.end() &&
           std::ranges::find(excluded, part) == excluded.end();
  };
  const CheckpointParts parts = {
      .model = has(kModelPart), .ema = has(kEmaPart), .optimizer = has(kOptimizerPart)};
  if (!parts.model && !parts.ema) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: a checkpoint with neither model nor ema has no policy",
                            config.Where("exclude_keys")));
  }
  return parts;
}

std::string CheckpointParts::MissingForResume(bool use_ema) const {
  std::vector<std::string> missing;
  if (!model) missing.emplace_back(kModelPart);
  if (!ema && use_ema) missing.emplace_back(kEmaPart);
  if (!optimizer) missing.emplace_back(kOptimizerPart);
  return fmt::format("{}", fmt::join(missing, ", "));
}

CheckpointConfig CheckpointConfig::FromConfig(const Config& config) {
  CheckpointConfig c;
  c.topk = run::TopKConfig::FromConfig(config.Sub("topk"));
  c.save_last_ckpt = config.Get<bool>("save_last_ckpt", c.save_last_ckpt);
  c.keep_every = GetCount(config, "keep_every", c.keep_every, 0);
  c.parts = CheckpointParts::FromConfig(config);
  c.background = config.Get<bool>("background", c.background);
  return c;
}

LoggingConfig LoggingConfig::FromConfig(const Config& config) {
  LoggingConfig c;
  c.tensorboard = config.Get<bool>("tensorboard", c.tensorboard);
  c.every = GetCount(config, "every", c.every, 1);
  c.histogram_every = GetCount(config, "histogram_every", c.histogram_every, 0);
  c.n_rollouts = GetCount(config, "n_rollouts", c.n_rollouts, 0);
  return c;
}

NormalizerConfig NormalizerConfig::FromConfig(const Config& config) {
  NormalizerConfig c;
  c.default_mode = config.GetChoice("default", {"limits", "gaussian", "identity"});
  c.default_rgb = config.GetChoice("default_rgb", {"image", "image_gaussian"});
  const std::vector<double> range =
      config.Get("depth_range", std::vector<double>(c.depth_range.begin(), c.depth_range.end()));
  if (range.size() != 2 || range[0] < 0.0 || range[0] >= range[1]) {
    throw Error(ErrorCode::kConfig, fmt::format("{} is {}; expected [nearest, farthest] in metres",
                                                config.Where("depth_range"), range));
  }
  c.depth_range = {range[0], range[1]};
  for (const std::string& key : config.Keys()) {
    if (key != "default" && key != "default_rgb" && key != "depth_range")
      c.modes[key] = config.Get<std::string>(key);
  }
  return c;
}

}  // namespace dp_bench::train
