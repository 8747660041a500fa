// Typed reads of the sections of train_config.h.
#include "train/train_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "config/name.h"
#include "core/atomic_file.h"
#include "core/device.h"
#include "dp_bench/error.h"

namespace dp_bench::train {
namespace {

constexpr std::int64_t kMaxCount = std::numeric_limits<int>::max();
constexpr std::int64_t kMaxThreads = 4096;

int GetCount(const Config& config, std::string_view key, int default_value, int low,
             const KeyMeaning& meaning) {
  return static_cast<int>(
      config.GetInRange(key, std::int64_t{default_value}, std::int64_t{low}, kMaxCount, meaning));
}

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
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: '{}' is not a selectable part of a checkpoint; the parts are {}",
                            config.Where(key), part, fmt::join(all, ", ")));
  }
  return parts;
}

/// A number of at least 1; none where the key is absent or null.
std::optional<std::int64_t> GetOptionalCount(const Config& config, std::string_view key,
                                             const KeyMeaning& meaning) {
  return config.GetOptionalInRange(key, std::int64_t{1}, std::numeric_limits<std::int64_t>::max(),
                                   meaning);
}

/// Refuses 0 as well as negative numbers: no training is possible in no time.
std::optional<double> GetMaxMinutes(const Config& config) {
  const auto minutes = config.GetOptional<double>(
      "max_minutes", "wall-clock limit in minutes, more than 0; none for no limit");
  if (!minutes || *minutes > 0.0) return minutes;
  throw Error(ErrorCode::kConfig,
              fmt::format("{}: expected more than 0 minutes, or null for no limit, found {}",
                          config.Where("max_minutes"), *minutes));
}

std::vector<SampleSteps> GetSampleSteps(const Config& config) {
  std::vector<SampleSteps> schedule;
  for (const Config& entry :
       config.List("sample_steps",
                   "denoising steps of these samples from an epoch on, such as few at first and "
                   "more later; "
                   "before the first entry, and without any, they have as many as an evaluation: "
                   "num_inference_steps of the policy")) {
    schedule.push_back(SampleSteps::FromConfig(entry));
    if (schedule.size() < 2 || schedule.back().epoch > std::prev(schedule.end(), 2)->epoch)
      continue;
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: expected a later epoch than {}, found {}", entry.Where("epoch"),
                            std::prev(schedule.end(), 2)->epoch, schedule.back().epoch));
  }
  return schedule;
}

constexpr const char* kAutoPrecision = "auto";

std::string GetPrecisionName(const Config& config) {
  return config.GetChoice(
      "mixed_precision", {"no", "bf16", "fp16", kAutoPrecision},
      "type of matrix products and convolutions in the training loss; everything else is float32. "
      "auto: bf16 if the device has fast bfloat16 products, else no; the run's config.json has the "
      "answer, which a resumed training keeps");
}

MixedPrecision GetMixedPrecision(const Config& config, const std::string& device) {
  const std::string name = GetPrecisionName(config);
  if (name == kAutoPrecision) {
    return core::HasFastBfloat16(core::OpenDevice(device)) ? MixedPrecision::kBf16
                                                           : MixedPrecision::kNo;
  }
  if (name == "bf16") return MixedPrecision::kBf16;
  return name == "fp16" ? MixedPrecision::kFp16 : MixedPrecision::kNo;
}

}  // namespace

InitCheckpointConfig InitCheckpointConfig::FromConfig(const Config& config) {
  InitCheckpointConfig c;
  c.path = config.Require<std::string>("path", "checkpoint folder of the other training");
  c.weights = config.GetChoice("weights", {"ema", "model"},
                               "start from its averaged weights or from its last ones");
  c.normalizer = config.Get<bool>("normalizer", c.normalizer,
                                  "take its normalizer too; false fits a new one to the data");
  c.tensors.include_keys = config.Get(
      "include_keys", c.tensors.include_keys,
      "regexes that are searched in tensor names; only matching tensors are taken. Empty for all");
  c.tensors.exclude_keys =
      config.Get("exclude_keys", c.tensors.exclude_keys,
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

SampleSteps SampleSteps::FromConfig(const Config& config) {
  SampleSteps c;
  c.epoch = GetCount(config, "epoch", c.epoch, 0, "from this epoch on; the first one is 0");
  const KeyMeaning meaning = "denoising steps of the actions that are sampled while training";
  config.Require<int>("num_inference_steps", meaning);
  c.num_inference_steps = GetCount(config, "num_inference_steps", 1, 1, meaning);
  return c;
}

const char* PrecisionName(MixedPrecision precision) {
  if (precision == MixedPrecision::kNo) return "float32";
  return precision == MixedPrecision::kBf16 ? "bf16" : "fp16";
}

bool IsAutoPrecision(const Config& training) {
  return GetPrecisionName(training) == kAutoPrecision;
}

std::optional<int> TrainingConfig::SampleStepsAt(int epoch) const {
  std::optional<int> steps;
  for (const SampleSteps& entry : sample_steps) {
    if (entry.epoch <= epoch) steps = entry.num_inference_steps;
  }
  return steps;
}

void TrainingConfig::TakeTeacher(const Config& config) {
  teacher = TeacherConfig::FromConfig(
      config.Sub("teacher",
                 "a policy with objective diffusion, from which one with objective consistency "
                 "learns; `dp_bench distill` writes this section"));
  if (!use_ema) {
    throw Error(ErrorCode::kConfig,
                fmt::format("{}: expected true with training.teacher, because the averaged weights "
                            "set the targets, found false",
                            config.Where("use_ema")));
  }
  init_checkpoint = {.path = teacher->path, .weights = teacher->weights, .normalizer = true};
}

TrainingConfig TrainingConfig::FromConfig(const Config& config) {
  TrainingConfig c;
  c.seed = config.Get<std::uint64_t>(
      "seed", c.seed, "decides the first weights, the order of samples and all noise");
  c.device = config.Get<std::string>("device", c.device, "a device of LibTorch: cpu, cuda, cuda:1");
  c.num_epochs = GetCount(config, "num_epochs", c.num_epochs, 0, "passes over the training data");
  c.resume = config.Get<bool>("resume", c.resume,
                              "continue from the latest checkpoint in the output folder");
  c.lr_schedule = LrScheduleConfig::FromConfig(config);
  c.mixed_precision = GetMixedPrecision(config, c.device);
  c.gradient_accumulate_every =
      config.GetInRange("gradient_accumulate_every", c.gradient_accumulate_every, std::int64_t{1},
                        kMaxCount, "batches whose gradients are summed for one update");
  c.auto_batch = config.Get<bool>(
      "auto_batch", c.auto_batch,
      "before a new training, find the largest divisor of dataloader.batch_size that fits into "
      "memory, and accumulate gradients so that an update has as many samples as without. The "
      "run's config.json has the numbers that were found, which a resumed training keeps");
  c.max_grad_norm = config.GetInRange("max_grad_norm", c.max_grad_norm, 0.0, 1e30,
                                      "longer gradients are scaled to this norm; 0 = off");
  c.use_ema =
      config.Get<bool>("use_ema", c.use_ema, "average the weights and evaluate the average");
  c.rollout_every = GetCount(config, "rollout_every", c.rollout_every, 0,
                             "period of the evaluations in the env, in epochs; 0 = never");
  c.checkpoint_every = GetCount(config, "checkpoint_every", c.checkpoint_every, 0,
                                "period of the checkpoints, in epochs; 0 = never");
  c.val_every = GetCount(config, "val_every", c.val_every, 0,
                         "period of the validation loss, in epochs; 0 = never");
  c.sample_every = GetCount(config, "sample_every", c.sample_every, 0,
                            "period in epochs of sampling actions for a training batch to measure "
                            "their error; 0 = never");
  c.sample_steps = GetSampleSteps(config);
  c.max_train_steps =
      GetOptionalCount(config, "max_train_steps", "batches per epoch; none for all");
  c.max_val_steps =
      GetOptionalCount(config, "max_val_steps", "batches per validation; none for all");
  c.max_minutes = GetMaxMinutes(config);
  if (config.Has("early_stop")) {
    c.early_stop = EarlyStopConfig::FromConfig(
        config.Sub("early_stop", "ends a training whose metric no longer improves"));
  }
  if (config.Has("init_checkpoint")) {
    c.init_checkpoint = InitCheckpointConfig::FromConfig(
        config.Sub("init_checkpoint",
                   "start a new training from the weights of another one; unused with "
                   "training.teacher"));
  }
  if (config.Has("teacher")) c.TakeTeacher(config);
  c.debug =
      config.Get<bool>("debug", c.debug, "two epochs of three steps, with everything due at each");
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
  c.batch_size = config.GetInRange("batch_size", c.batch_size, std::int64_t{1}, kMaxCount,
                                   "samples per batch, over all ranks");
  c.num_workers = static_cast<int>(
      config.GetInRange("num_workers", std::int64_t{c.num_workers}, std::int64_t{0}, kMaxThreads,
                        "threads that prepare batches; 0 prepares them on the training's thread"));
  c.shuffle = config.Get<bool>("shuffle", shuffle_default, "a new order of the samples each epoch");
  return c;
}

SplitConfig SplitConfig::FromConfig(const Config& config) {
  SplitConfig c;
  c.val_ratio = config.GetInRange("val_ratio", c.val_ratio, 0.0, 1.0,
                                  "fraction of the episodes used for validation");
  c.seed = config.Get<std::uint64_t>("seed", c.seed, "decides which episodes those are");
  c.max_train_episodes =
      GetOptionalCount(config, "max_train_episodes", "training episodes at most; none for all");
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

void RequireCheckpointTag(const std::string& tag, std::string_view where) {
  config::RequireName(tag, where);
  // CheckpointStore removes what has such a name
  if (!core::IsTemporaryName(tag) && !tag.ends_with(".old")) return;
  throw Error(ErrorCode::kConfig,
              fmt::format("{}: expected another name than '{}', which marks unfinished checkpoints",
                          where, tag));
}

NamedCheckpoint NamedCheckpoint::FromConfig(const Config& config) {
  NamedCheckpoint c;
  c.epoch = GetCount(config, "epoch", c.epoch, 0, "save after this epoch; the first one is 0");
  c.tag = config.GetOptional<std::string>("tag", "name in the folder `checkpoints`").value_or("");
  c.path = config.GetOptional<std::string>("path", "or the folder of the checkpoint").value_or("");
  if (c.tag.empty() == c.path.empty()) {
    throw Error(ErrorCode::kConfig, fmt::format("{}: expected either a tag or a path, found {}",
                                                config.Where(), c.tag.empty() ? "none" : "both"));
  }
  if (!c.tag.empty()) RequireCheckpointTag(c.tag, config.Where("tag"));
  return c;
}

CheckpointConfig CheckpointConfig::FromConfig(const Config& config) {
  CheckpointConfig c;
  c.topk =
      run::TopKConfig::FromConfig(config.Sub("topk", "which of the best checkpoints are kept"));
  c.save_last_ckpt =
      config.Get<bool>("save_last_ckpt", c.save_last_ckpt, "keep the latest checkpoint, `latest`");
  c.keep_every =
      GetCount(config, "keep_every", c.keep_every, 0,
               "keep the checkpoints of epochs 0, n, 2n, … and of the last one for good; 0 = none");
  for (const Config& wanted : config.List(
           "save_at", "further checkpoints, each after one epoch; they are never removed")) {
    c.save_at.push_back(NamedCheckpoint::FromConfig(wanted));
  }
  c.parts = CheckpointParts::FromConfig(config);
  c.background = config.Get<bool>(
      "background", c.background,
      "train on while a checkpoint is written, which takes a copy of weights, averaged weights and "
      "optimizer state in host memory; false: the training waits and the copy is freed");
  return c;
}

LoggingConfig LoggingConfig::FromConfig(const Config& config) {
  LoggingConfig c;
  c.tensorboard =
      config.Get<bool>("tensorboard", c.tensorboard,
                       "write TensorBoard files; `logs.json.txt` always has every step");
  c.every = GetCount(config, "every", c.every, 1,
                     "steps between two points of a curve; the end of an epoch is one too");
  c.ranges_every = GetCount(
      config, "ranges_every", c.ranges_every, 0,
      "period in steps of the ranges of a loss in the log, which `diagnose` reads: "
      "`train_x0_min`, `_max`, `_mean`, `_std`, and the same for noise, t, predicted_x0, the "
      "network's inputs xt and condition and its output; and of `param_norm`; 0 = never");
  c.denoising_every =
      GetCount(config, "denoising_every", c.denoising_every, 0,
               "samplings of training.sample_every between two pictures of how the sampled actions "
               "emerge from noise, in TensorBoard; 0 = never");
  c.histogram_every =
      GetCount(config, "histogram_every", c.histogram_every, 0,
               "period of the distributions of weights and gradients, in epochs; 0 = never");
  c.n_rollouts = GetCount(
      config, "n_rollouts", c.n_rollouts, 0,
      "episodes of each split that are filmed at each evaluation of a training. "
      "`rollouts/media/` keeps the films of the last evaluation; TensorBoard shows frames of each");
  return c;
}

NormalizerConfig NormalizerConfig::FromConfig(const Config& config) {
  NormalizerConfig c;
  c.default_mode = config.GetChoice("default", {"limits", "gaussian", "identity"},
                                    "mode of numbers and of the action");
  c.default_rgb = config.GetChoice(
      "default_rgb", {"image", "image_gaussian"},
      "mode of colour images: image maps to [-1, 1], image_gaussian to mean 0 and deviation 1 per "
      "channel of the dataset");
  const std::vector<double> range = config.Get(
      "depth_range", std::vector<double>(c.depth_range.begin(), c.depth_range.end()),
      "[nearest, farthest] depth in metres, mapped to [0, 1]; values outside are clipped");
  if (range.size() != 2 || range[0] < 0.0 || range[0] >= range[1]) {
    throw Error(ErrorCode::kConfig, fmt::format("{} is {}; expected [nearest, farthest] in metres",
                                                config.Where("depth_range"), range));
  }
  c.depth_range = {range[0], range[1]};
  for (const std::string& key : config.Keys()) {
    if (key != "default" && key != "default_rgb" && key != "depth_range")
      c.modes[key] = config.Require<std::string>(
          key,
          "mode of one key of shape_meta or of `action`: limits, gaussian, identity; image, "
          "image_gaussian; depth");
  }
  return c;
}

}  // namespace dp_bench::train
