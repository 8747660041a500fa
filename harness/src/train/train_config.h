// The config sections of a training, under the names of diffusion_policy
// (config/train_diffusion_unet_hybrid_workspace.yaml), as plain structs. What the keys mean is
// written where they are read.
#pragma once

#include <torch/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dp_bench/config.h"
#include "planner/policy_weights.h"
#include "train/lr_scheduler.h"

namespace dp_bench::train {

/// "training.init_checkpoint": a new training that starts from the weights of another one, and
/// takes nothing else from it. Its EMA starts from the same weights.
struct InitCheckpointConfig {
  std::filesystem::path path;
  std::string weights = "ema";
  bool normalizer = false;
  planner::TensorSelection tensors;

  static InitCheckpointConfig FromConfig(const Config& config);
};

/// "training.teacher": a trained policy whose answers the training learns (dp_bench distill). The
/// training starts from its weights and its normalizer.
struct TeacherConfig {
  std::filesystem::path path;
  std::string weights = "ema";

  static TeacherConfig FromConfig(const Config& config);
};

/// The type of matrix products and convolutions in the forward and backward pass: float32,
/// bfloat16, or float16 with a gradient scaler.
enum class MixedPrecision { kNo, kBf16, kFp16 };

/// "float32", "bf16" or "fp16".
const char* PrecisionName(MixedPrecision precision);

/// The type of the products under autocast; none for kNo.
std::optional<torch::ScalarType> ProductType(MixedPrecision precision);

/// Whether "training.mixed_precision" of this section is auto. TrainingConfig has the answer for
/// its device.
bool IsAutoPrecision(const Config& training);

/// "training". A period of n is due at epochs 0, n, 2n, ... and at the last one; 0 means never.
struct TrainingConfig {
  std::uint64_t seed = 42;
  std::string device = "cpu";
  int num_epochs = 100;
  bool resume = false;
  LrScheduleConfig lr_schedule;
  MixedPrecision mixed_precision = MixedPrecision::kNo;
  std::int64_t gradient_accumulate_every = 1;
  double max_grad_norm = 0.0;
  bool use_ema = true;
  int max_roll_forward = 0;
  int rollout_every = 50;
  int checkpoint_every = 50;
  int val_every = 1;
  int sample_every = 5;
  std::optional<std::int64_t> max_train_steps;
  std::optional<std::int64_t> max_val_steps;
  std::optional<double> max_minutes;
  std::optional<InitCheckpointConfig> init_checkpoint;  // with a teacher, the teacher's
  std::optional<TeacherConfig> teacher;
  bool debug = false;

  static TrainingConfig FromConfig(const Config& config);

  /// Whether what has the period `every` is due at the end of this epoch.
  bool IsDue(int every, int epoch) const {
    return every > 0 && (epoch % every == 0 || epoch + 1 == num_epochs);
  }

 private:
  void ReadPeriods(const Config& config);
  void TakeTeacher(const Config& config);
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

  static CheckpointParts FromConfig(const Config& config);

  /// The excluded parts that a resumed training needs, such as "optimizer, ema"; empty if none.
  std::string MissingForResume(bool use_ema) const;
};

/// Throws Error{kConfig} unless `tag` can be the name of a checkpoint in the folder `checkpoints`.
/// `where` is for the message.
void RequireCheckpointTag(const std::string& tag, std::string_view where);

/// "checkpoint.topk".
struct TopKConfig {
  std::string monitor_key = "test_mean_score";
  bool is_max = true;
  int k = 5;

  static TopKConfig FromConfig(const Config& config);
};

/// "checkpoint.save_at": a checkpoint after one epoch, in `path` or under `tag`.
struct NamedCheckpoint {
  int epoch = 0;
  std::string tag;
  std::filesystem::path path;

  static NamedCheckpoint FromConfig(const Config& config);
};

/// "checkpoint".
struct CheckpointConfig {
  TopKConfig topk;
  bool save_last_ckpt = true;
  int keep_every = 0;
  std::vector<NamedCheckpoint> save_at;
  CheckpointParts parts;
  bool background = true;

  static CheckpointConfig FromConfig(const Config& config);
};

/// "logging".
struct LoggingConfig {
  bool tensorboard = true;
  int every = 10;
  int ranges_every = 50;
  int n_rollouts = 1;

  static LoggingConfig FromConfig(const Config& config);
};

/// "normalizer". Depth keys have mode "depth" unless named.
struct NormalizerConfig {
  std::string default_mode = "limits";
  std::string default_rgb = "image";
  std::array<double, 2> depth_range = {0.05, 1.5};
  std::map<std::string, std::string, std::less<>> modes;  // by key
  std::map<std::string, double, std::less<>> min_range;   // by key

  static NormalizerConfig FromConfig(const Config& config);
};

}  // namespace dp_bench::train
