// The config.json of a LeRobot policy: diffusion or ACT. Torch-free.
// Format: DiffusionConfig and ACTConfig of LeRobot 0.3 to 0.6 (policies/*/configuration_*.py).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "dp_bench/array.h"

namespace dp_bench::interop {

// LeRobot's policies that dp_bench computes, and the plugins that do.
inline constexpr std::string_view kLerobotDiffusion = "diffusion";
inline constexpr std::string_view kLerobotAct = "act";
inline constexpr std::string_view kDiffusionPlugin = "unet_hybrid";
inline constexpr std::string_view kActPlugin = "act";

// The inputs of numbers that LeRobot's policies can have.
inline constexpr std::string_view kLerobotState = "observation.state";
inline constexpr std::string_view kLerobotEnvState = "observation.environment_state";

/// What a feature holds: the robot's state, the state of the world, a colour image, the action.
enum class LerobotFeatureType { kState, kEnv, kVisual, kAction };

struct LerobotFeature {
  std::string name;
  LerobotFeatureType type = LerobotFeatureType::kState;
  Shape shape;  // [D], or [C, H, W] for an image

  bool operator==(const LerobotFeature&) const = default;
};

/// kMinMax: [min, max] -> [-1, 1]. kMeanStd: mean 0, deviation 1. Of images: per channel.
enum class LerobotNorm { kIdentity, kMeanStd, kMinMax };

/// In the files: "STATE", "ENV", "VISUAL", "ACTION" and "IDENTITY", "MEAN_STD", "MIN_MAX".
std::string_view Name(LerobotFeatureType type);
std::string_view Name(LerobotNorm norm);

using LerobotNormMap = std::map<LerobotFeatureType, LerobotNorm>;  // a missing type: kIdentity

/// As in the files: {"STATE": "MIN_MAX", ...} and {"<name>": {"type": "STATE", "shape": [2]}, ...}.
nlohmann::ordered_json AsJson(const LerobotNormMap& norms);
nlohmann::ordered_json AsJson(std::span<const LerobotFeature> features);

/// Reads {"STATE": "MIN_MAX", ...}; types that a diffusion policy does not have are left out.
/// Throws Error{kCheckpoint} for a mode that dp_bench does not have.
LerobotNormMap ReadLerobotNormMap(const core::JsonView& section);

/// The fields that only ACT has.
struct LerobotActConfig {
  bool pre_norm = false;
  int dim_model = 0;
  int n_heads = 0;
  int dim_feedforward = 0;
  std::string feedforward_activation;  // "relu" or "gelu"
  int n_encoder_layers = 0;
  int n_decoder_layers = 0;
  bool use_vae = true;
  int latent_dim = 0;
  int n_vae_encoder_layers = 0;
  std::optional<double> temporal_ensemble_coeff;
  double dropout = 0.0;
  double kl_weight = 0.0;
  double optimizer_lr_backbone = 1e-5;
};

/// The fields that decide what the network computes, and those of its training that dp_bench has
/// too. Names, units and meaning are LeRobot's. ACT has no more of them than `act`, the inputs, the
/// action, the norms, the horizons and the optimizer's rate and weight decay.
struct LerobotPolicyConfig {
  std::string type{kLerobotDiffusion};
  LerobotActConfig act;
  std::vector<LerobotFeature> inputs;  // that the network sees, in LeRobot's order: the state, the
                                       // cameras as in the file, the state of the world
  LerobotFeature action;
  LerobotNormMap normalization_mapping;

  int n_obs_steps = 0;
  int horizon = 0;         // ACT's chunk_size
  int n_action_steps = 0;  // with ensembling as in Horizons: the horizon, where LeRobot has 1
  std::optional<std::vector<std::int64_t>> resize_shape;  // [height, width], before the crop
  std::optional<std::vector<std::int64_t>> crop_shape;    // [height, width]
  bool crop_is_random = true;
  bool use_group_norm = false;  // in place of batch norm
  int spatial_softmax_num_keypoints = 0;
  bool use_separate_rgb_encoder_per_camera = false;
  std::vector<std::int64_t> down_dims;
  int kernel_size = 0;
  int n_groups = 0;
  int diffusion_step_embed_dim = 0;
  bool use_film_scale_modulation = false;
  std::string noise_scheduler_type;  // "DDPM" or "DDIM"
  int num_train_timesteps = 0;
  std::string beta_schedule;
  double beta_start = 0.0;
  double beta_end = 0.0;
  std::string prediction_type;  // "epsilon" or "sample"
  bool clip_sample = false;
  double clip_sample_range = 0.0;
  std::optional<int> num_inference_steps;  // none: num_train_timesteps
  bool do_mask_loss_for_padding = false;
  int drop_n_last_frames = 0;
  double optimizer_lr = 1e-4;
  std::array<double, 2> optimizer_betas = {0.95, 0.999};
  double optimizer_eps = 1e-8;
  double optimizer_weight_decay = 1e-6;
  std::string scheduler_name = "cosine";
  int scheduler_warmup_steps = 500;

  bool is_act() const { return type == kLerobotAct; }

  /// The plugin that computes it.
  std::string_view plugin() const { return is_act() ? kActPlugin : kDiffusionPlugin; }

  LerobotNorm NormOf(LerobotFeatureType feature) const;

  /// Of the cameras, in LeRobot's order.
  std::vector<LerobotFeature> cameras() const;
};

/// The same settings in the places of dp_bench's config: horizons, policy.params, optimizer,
/// training. And back: what `settings` does not have stays as it is.
nlohmann::json ToSettings(const LerobotPolicyConfig& config);
void TakeSettings(const nlohmann::json& settings, LerobotPolicyConfig* config);

/// Throws Error{kCheckpoint} naming `path` and the field for a field that is missing, that has a
/// value that dp_bench's plugin cannot reproduce, or that is unknown.
LerobotPolicyConfig ParseLerobotPolicyConfig(std::string_view text,
                                             const std::filesystem::path& path);

/// As LeRobot 0.6 writes it.
std::string ToJson(const LerobotPolicyConfig& config);

}  // namespace dp_bench::interop
