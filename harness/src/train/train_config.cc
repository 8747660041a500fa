// Typed reads of the sections of train_config.h.
#include "train/train_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "config/name.h"
#include "core/atomic_file.h"
#include "core/errors.h"
#include "dp_bench/config_keys.h"
#include "policy/device.h"

namespace dp_bench::train {
namespace {

constexpr int kMaxCount = std::numeric_limits<int>::max();
constexpr int kMaxThreads = 4096;
constexpr int kMaxRollForward = 1000;  // control steps

constexpr const char* kModelPart = "model";
constexpr const char* kEmaPart = "ema";
constexpr const char* kOptimizerPart = "optimizer";

/// A list of parts of a checkpoint.
std::vector<std::string> GetParts(const Config& config, std::string_view key,
                                  const std::vector<std::string>& default_value,
                                  const KeyMeaning& meaning) {
  const std::vector<std::string> all = {kModelPart, kEmaPart, kOptimizerPart};
  std::vector<std::string> parts = config.Get(key, default_value, meaning);
  for (const std::string& part : parts) {
    if (std::ranges::find(all, part) != all.end()) continue;
    throw ConfigError("{}: '{}' is not a selectable part of a checkpoint; the parts are {}",
                      config.Where(key), part, fmt::join(all, ", "));
  }
  return parts;
}

// The choices of training.mixed_precision; nothing for auto.
std::optional<MixedPrecision> GetPrecision(const Config& config) {
  std::optional<MixedPrecision> precision;
  ConfigKeys(config).Choice(
      "mixed_precision", &precision,
      {{"no", MixedPrecision::kNo},
       {"bf16", MixedPrecision::kBf16},
       {"fp16", MixedPrecision::kFp16},
       {"auto", std::nullopt}},
      "type of matrix products and convolutions in the training loss; everything else is float32. "
      "auto: bf16 if the device has fast bfloat16 products, else no; the run's config.json has the "
      "answer, which a resumed training keeps");
  return precision;
}

MixedPrecision BestPrecision(const std::string& device) {
  return policy::HasFastBfloat16(policy::OpenDevice(device)) ? MixedPrecision::kBf16
                                                             : MixedPrecision::kNo;
}

}  // namespace

InitCheckpointConfig InitCheckpointConfig::FromConfig(const Config& config) {
  InitCheckpointConfig c;
  const ConfigKeys keys(config);
  c.path = config.Require<std::string>("path", "checkpoint folder of the other training");
  c.weights = config.GetChoice("weights", {"ema", "model"},
                               "start from its averaged weights or from its last ones");
  keys("normalizer", &c.normalizer, "take its normalizer too; false fits a new one to the data");
  keys("include_keys", &c.tensors.include_keys,
       "regexes that are searched in tensor names; only matching tensors are taken. Empty for all");
  keys("exclude_keys", &c.tensors.exclude_keys,
       "regexes; tensors whose names match are not taken and start fresh");
  return c;
}

TeacherConfig TeacherConfig::FromConfig(const Config& config) {
  TeacherConfig c;
  c.path = config.Require<std::string>("path", "checkpoint folder of the teacher");
  c.weights =
      config.GetChoice("weights", {"ema", "model"}, "its averaged weights or its last ones");
  return c;
}

const char* PrecisionName(MixedPrecision precision) {
  if (precision == MixedPrecision::kNo) return "float32";
  return precision == MixedPrecision::kBf16 ? "bf16" : "fp16";
}

std::optional<torch::ScalarType> ProductType(MixedPrecision precision) {
  if (precision == MixedPrecision::kNo) return std::nullopt;
  return precision == MixedPrecision::kBf16 ? torch::kBFloat16 : torch::kFloat16;
}

bool IsAutoPrecision(const Config& training) { return !GetPrecision(training).has_value(); }

void TrainingConfig::TakeTeacher(const Config& config) {
  teacher = TeacherConfig::FromConfig(
      config.Sub("teacher",
                 "a policy with objective diffusion, from which one with objective consistency "
                 "learns; `dp_bench distill` writes this section"));
  if (!use_ema) {
    throw ConfigError(
        "{}: expected true with training.teacher, because the averaged weights set the targets, "
        "found false",
        config.Where("use_ema"));
  }
  init_checkpoint = {.path = teacher->path, .weights = teacher->weights, .normalizer = true};
}

TrainingConfig TrainingConfig::FromConfig(const Config& config) {
  TrainingConfig c;
  const ConfigKeys keys(config);
  keys("seed", &c.seed, "decides the first weights, the order of samples and all noise");
  keys("device", &c.device, "a device of LibTorch: cpu, cuda, cuda:1");
  keys("num_epochs", &c.num_epochs, 0, kMaxCount, "passes over the training data");
  keys("resume", &c.resume, "continue from the latest checkpoint in the output folder");
  c.lr_schedule = LrScheduleConfig::FromConfig(config);
  const std::optional<MixedPrecision> precision = GetPrecision(config);
  c.mixed_precision = precision ? *precision : BestPrecision(c.device);
  keys("gradient_accumulate_every", &c.gradient_accumulate_every, 1, kMaxCount,
       "batches whose gradients are averaged for one update, in which each sample counts the same");
  keys("max_grad_norm", &c.max_grad_norm, 0.0, 1e30,
       "longer gradients are scaled to this norm; 0 = off");
  keys("use_ema", &c.use_ema, "average the weights and evaluate the average");
  keys("max_roll_forward", &c.max_roll_forward, 0, kMaxRollForward,
       "train to plan up to this many steps ahead: the state that follows actions "
       "(env_runner.chunking.followed_actions) is that of a random number of steps later, other "
       "observations are not (VLASH); 0 = off");
  c.ReadPeriods(config);
  if (config.Has("init_checkpoint")) {
    c.init_checkpoint = InitCheckpointConfig::FromConfig(config.Sub(
        "init_checkpoint",
        "start a new training from the weights of another one; unused with training.teacher"));
  }
  if (config.Has("teacher")) c.TakeTeacher(config);
  keys("debug", &c.debug, "two epochs of three steps, with everything due at each");
  if (c.debug) {
    c.num_epochs = 2;
    c.max_train_steps = 3;
    c.max_val_steps = 3;
    c.rollout_every = c.checkpoint_every = c.val_every = c.sample_every = 1;
  }
  return c;
}

void TrainingConfig::ReadPeriods(const Config& config) {
  constexpr std::int64_t kMaxSteps = std::numeric_limits<std::int64_t>::max();
  const ConfigKeys keys(config);
  keys("rollout_every", &rollout_every, 0, kMaxCount,
       "period of the evaluations in the env, in epochs; 0 = never");
  keys("checkpoint_every", &checkpoint_every, 0, kMaxCount,
       "period of the checkpoints, in epochs; 0 = never");
  keys("val_every", &val_every, 0, kMaxCount,
       "period of the validation loss, in epochs; 0 = never");
  keys("sample_every", &sample_every, 0, kMaxCount,
       "period in epochs of sampling actions for a training batch to measure their error; 0 = "
       "never");
  keys("max_train_steps", &max_train_steps, 1, kMaxSteps, "batches per epoch; none for all");
  keys("max_val_steps", &max_val_steps, 1, kMaxSteps, "batches per validation; none for all");
  keys("max_minutes", &max_minutes,
       "wall-clock limit in minutes, more than 0, over all resumes; none for no limit");
  if (!max_minutes || *max_minutes > 0.0) return;  // no training is possible in no time
  throw ConfigError("{}: expected more than 0 minutes, or null for no limit, found {}",
                    config.Where("max_minutes"), *max_minutes);
}

DataLoaderConfig DataLoaderConfig::FromConfig(const Config& config, bool shuffle_default) {
  DataLoaderConfig c = {.shuffle = shuffle_default};
  const ConfigKeys keys(config);
  keys("batch_size", &c.batch_size, 1, kMaxCount, "samples per batch, over all ranks");
  keys("num_workers", &c.num_workers, 0, kMaxThreads,
       "threads that prepare batches; 0 prepares them on the training's thread");
  keys("shuffle", &c.shuffle, "a new order of the samples each epoch");
  return c;
}

SplitConfig SplitConfig::FromConfig(const Config& config) {
  SplitConfig c;
  const ConfigKeys keys(config);
  keys("val_ratio", &c.val_ratio, 0.0, 1.0, "fraction of the episodes used for validation");
  keys("seed", &c.seed, "decides which episodes those are");
  keys("max_train_episodes", &c.max_train_episodes, 1, std::numeric_limits<std::int64_t>::max(),
       "training episodes at most; none for all");
  return c;
}

CheckpointParts CheckpointParts::FromConfig(const Config& config) {
  const auto included = GetParts(config, "include_keys", {kModelPart, kEmaPart, kOptimizerPart},
                                 "parts to save: model, ema, optimizer");
  const auto excluded = GetParts(config, "exclude_keys", {}, "parts to leave out");
  const auto has = [&](const char* part) {
    return std::ranges::find(included, part) != included.end() &&
           std::ranges::find(excluded, part) == excluded.end();
  };
  const CheckpointParts parts = {
      .model = has(kModelPart), .ema = has(kEmaPart), .optimizer = has(kOptimizerPart)};
  if (!parts.model && !parts.ema) {
    throw ConfigError("{}: a checkpoint with neither model nor ema has no policy",
                      config.Where("exclude_keys"));
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

void RequireCheckpointTag(const std::string& tag, std::string_view where) {
  config::RequireName(tag, where);
  // CheckpointStore removes what has such a name
  if (!core::IsTemporaryName(tag) && !tag.ends_with(".old")) return;
  throw ConfigError("{}: expected another name than '{}', which marks unfinished checkpoints",
                    where, tag);
}

TopKConfig TopKConfig::FromConfig(const Config& config) {
  TopKConfig c;
  const ConfigKeys keys(config);
  keys("monitor_key", &c.monitor_key, "a metric of `logs.json.txt`; / and _ are the same");
  keys.Choice("mode", &c.is_max, {{"max", true}, {"min", false}}, "whether more or less is better");
  keys("k", &c.k, 0, 1000, "number of checkpoints; 0 = none");
  return c;
}

NamedCheckpoint NamedCheckpoint::FromConfig(const Config& config) {
  NamedCheckpoint c;
  const ConfigKeys keys(config);
  keys("epoch", &c.epoch, 0, kMaxCount, "save after this epoch; the first one is 0");
  c.tag = config.GetOptional<std::string>("tag", "name in the folder `checkpoints`").value_or("");
  c.path = config.GetOptional<std::string>("path", "or the folder of the checkpoint").value_or("");
  if (c.tag.empty() == c.path.empty()) {
    throw ConfigError("{}: expected either a tag or a path, found {}", config.Where(),
                      c.tag.empty() ? "none" : "both");
  }
  if (!c.tag.empty()) RequireCheckpointTag(c.tag, config.Where("tag"));
  return c;
}

CheckpointConfig CheckpointConfig::FromConfig(const Config& config) {
  CheckpointConfig c;
  const ConfigKeys keys(config);
  c.topk = TopKConfig::FromConfig(config.Sub("topk", "which of the best checkpoints are kept"));
  keys("save_last_ckpt", &c.save_last_ckpt, "keep the latest checkpoint, `latest`");
  keys("keep_every", &c.keep_every, 0, kMaxCount,
       "keep the checkpoints of epochs 0, n, 2n, … and of the last one for good; 0 = none");
  for (const Config& wanted : config.List(
           "save_at", "further checkpoints, each after one epoch; they are never removed")) {
    c.save_at.push_back(NamedCheckpoint::FromConfig(wanted));
  }
  c.parts = CheckpointParts::FromConfig(config);
  keys("background", &c.background,
       "train on while a checkpoint is written, which takes a copy of weights, averaged weights "
       "and optimizer state in host memory; false: the training waits and the copy is freed");
  return c;
}

LoggingConfig LoggingConfig::FromConfig(const Config& config) {
  LoggingConfig c;
  const ConfigKeys keys(config);
  keys("tensorboard", &c.tensorboard,
       "write TensorBoard files; `logs.json.txt` always has every step");
  keys("every", &c.every, 1, kMaxCount,
       "steps between two points of a curve; the end of an epoch is one too");
  keys("ranges_every", &c.ranges_every, 0, kMaxCount,
       "period in steps of the ranges of a loss in the log, which `diagnose` reads: "
       "`train_x0_min`, `_max`, `_mean`, `_std`, and the same for noise, t, predicted_x0, the "
       "network's inputs xt and condition and its output; and of `param_norm`; 0 = never");
  keys("n_rollouts", &c.n_rollouts, 0, kMaxCount,
       "episodes of each split of which each evaluation of a training records a video. "
       "`rollouts/media/` "
       "keeps the videos of the last evaluation; TensorBoard shows frames of each");
  return c;
}

NormalizerConfig NormalizerConfig::FromConfig(const Config& config) {
  NormalizerConfig c;
  const ConfigKeys keys(config);
  c.default_mode = config.GetChoice("default", {"limits", "gaussian", "identity"},
                                    "mode of numbers and of the action");
  c.default_rgb = config.GetChoice("default_rgb", {"image", "image_gaussian"},
                                   "mode of colour images: image maps to [-1, 1], image_gaussian "
                                   "to mean 0 and deviation 1 per channel of the dataset");
  keys("depth_range", &c.depth_range,
       "[nearest, farthest] depth in metres, mapped to [0, 1]; values outside are clipped");
  if (c.depth_range[0] < 0.0 || c.depth_range[0] >= c.depth_range[1]) {
    throw ConfigError("{} is {}; expected [nearest, farthest] in metres",
                      config.Where("depth_range"), c.depth_range);
  }
  const Config min_range = config.Sub("min_range");
  for (const std::string& key : min_range.Keys()) {
    c.min_range[key] = min_range.GetInRange(
        key, 0.0, 0.0, 1e9,
        "what changes by less in the dataset is centred and scaled as if it changed by this much, "
        "in the units of the data; gaussian takes the deviation of a uniform draw from this range");
  }
  for (const std::string& key : config.Keys()) {
    if (key == "default" || key == "default_rgb" || key == "depth_range" || key == "min_range") {
      continue;
    }
    c.modes[key] =
        config.Require<std::string>(key,
                                    "mode of one key of shape_meta or of `action`: limits, "
                                    "gaussian, identity; image, image_gaussian; depth");
  }
  return c;
}

}  // namespace dp_bench::train
