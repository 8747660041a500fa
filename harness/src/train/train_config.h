// The config sections of a training, under the names of diffusion_policy
// (config/train_diffusion_unet_hybrid_workspace.yaml), as plain structs.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "dp_bench/config.h"
#include "run/policy_weights.h"
#include "run/top_k.h"
#include "train/early_stop.h"
#include "train/lr_scheduler.h"

namespace dp_bench::train {

/// "training.init_checkpoint": a new training that starts from the weights of another one, and
/// takes nothing else from it. Its EMA starts from the same weights.
struct InitCheckpointConfig {
  std::filesystem::path path;    // checkpoint folder
  std::string weights = "ema";   // or "model"
  bool normalizer = false;       // also take its normalizer, instead of fitting one to the data
  run::TensorSelection tensors;  // "include_keys", "exclude_keys"; the rest starts from new weights

  static InitCheckpointConfig FromConfig(const Config& config);
};

/// The type of matrix products and convolutions in the forward and backward pass: float32,
/// bfloat16, or float16 with a gradient scaler.
enum class MixedPrecision { kNo, kBf16, kFp16 };

/// "training". A period of n is due at epochs 0, n, 2n, ... and at the last one; 0 means never.
struct TrainingConfig {
  std::uint64_t seed = 42;
  std::string device = "cpu";  // "cpu", "cuda", "cuda:1"
  int num_epochs = 100;
  bool resume = false;
  LrScheduleConfig lr_schedule;  // "lr_scheduler", "lr_warmup_steps", in optimiser steps
  MixedPrecision mixed_precision = MixedPrecision::kNo;  // "no", "bf16", "fp16"
  std::int64_t gradient_accumulate_every = 1;
  double max_grad_norm = 0.0;  // 0: no clipping
  bool use_ema = true;
  int rollout_every = 50;
  int checkpoint_every = 50;
  int val_every = 1;
  int sample_every = 5;
  std::optional<std::int64_t> max_train_steps;  // batches per epoch
  std::optional<std::int64_t> max_val_steps;    // batches per validation
  std::optional<double> max_minutes;            // wall clock time of this process
  std::optional<EarlyStopConfig> early_stop;    // none: train all epochs
  // for a run that is not resumed
  std::optional<InitCheckpointConfig> init_checkpoint;
  bool debug = false;  // two epochs of three steps, with everything due at each

  static TrainingConfig FromConfig(const Config& config);
};

/// "dataloader" and "val_dataloader".
struct DataLoaderConfig {
  std::int64_t batch_size = 64;
  int num_workers = 1;
  bool shuffle = true;

  static DataLoaderConfig FromConfig(const Config& config, bool shuffle_default);
};

/// "dataset", as far as the harness reads it. The app reads the plugin and its params.
struct SplitConfig {
  double val_ratio = 0.0;
  std::uint64_t seed = 42;
  std::optional<std::int64_t> max_train_episodes;

  static SplitConfig FromConfig(const Config& config);
};

/// The selectable parts of a training in a checkpoint. The normalizer and the state, including the
/// config, are always saved.
struct CheckpointParts {
  bool model = true;
  bool ema = true;  // if there is one
  bool optimizer = true;

  /// Reads "include_keys" and "exclude_keys", lists of "model", "ema" and "optimizer". By default
  /// everything is included.
  static CheckpointParts FromConfig(const Config& config);

  /// The excluded parts that a resumed training needs, such as "optimizer, ema"; empty if none.
  std::string MissingForResume(bool use_ema) const;
};

/// "checkpoint".
struct CheckpointConfig {
  run::TopKConfig topk;
  bool save_last_ckpt = true;
  int keep_every = 0;  // a period in epochs; such a checkpoint is kept for good
  CheckpointParts parts;
  bool background = true;  // written while the training continues

  static CheckpointConfig FromConfig(const Config& config);
};

/// "logging": what TensorBoard shows of the training. logs.json.txt always has every step.
struct LoggingConfig {
  bool tensorboard = true;
  int every = 10;           // a point every n steps, and at the end of each epoch
  int histogram_every = 0;  // distributions of weights and gradients; a period in epochs
  int n_rollouts = 1;       // filmed per evaluation and split

  static LoggingConfig FromConfig(const Config& config);
};

/// "normalizer": {"default": "limits", "default_rgb": "image", "depth_range": [0.05, 1.5], "<key>":
/// mode}. Depth keys have mode "depth" unless named.
struct NormalizerConfig {
  std::string default_mode = "limits";
  std::string default_rgb = "image";
  std::array<double, 2> depth_range = {0.05, 1.5};        // [m]
  std::map<std::string, std::string, std::less<>> modes;  // by key

  static NormalizerConfig FromConfig(const Config& config);
};

}  // namespace dp_bench::train
