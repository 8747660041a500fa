// See lerobot_import.h.
#include "experiment/lerobot_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "experiment/experiment.h"
#include "experiment/key_check.h"
#include "experiment/lerobot_normalizer.h"
#include "run/checkpoint.h"
#include "run/lerobot/policy_folder.h"
#include "run/policy_weights.h"
#include "train/train_state.h"

namespace dp_bench::experiment {
namespace {

using Json = nlohmann::json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json NoiseScheduler(const run::LerobotPolicyConfig& config) {
  // the rest is what LeRobot leaves at diffusers' defaults
  return {{"type", config.noise_scheduler_type == "DDIM" ? "ddim" : "ddpm"},
          {"num_train_timesteps", config.num_train_timesteps},
          {"num_inference_steps", config.num_inference_steps.value_or(config.num_train_timesteps)},
          {"beta_schedule", config.beta_schedule},
          {"beta_start", config.beta_start},
          {"beta_end", config.beta_end},
          {"prediction_type", config.prediction_type},
          {"clip_sample", config.clip_sample},
          {"clip_sample_range", config.clip_sample_range},
          {"timestep_spacing", "leading"},
          {"steps_offset", 0},
          {"set_alpha_to_one", true},
          {"eta", 0.0}};
}

Json PolicyParams(const run::LerobotPolicyConfig& config) {
  return {{"down_dims", config.down_dims},
          {"kernel_size", config.kernel_size},
          {"n_groups", config.n_groups},
          {"diffusion_step_embed_dim", config.diffusion_step_embed_dim},
          {"cond_predict_scale", config.use_film_scale_modulation},
          {"do_mask_loss_for_padding", config.do_mask_loss_for_padding},
          {"crop_shape", OrNull(config.crop_shape)},
          {"crop_is_random", config.crop_is_random},
          {"resize_shape", OrNull(config.resize_shape)},
          {"resize_first", true},
          {"obs_encoder",
           {{"use_group_norm", config.use_group_norm},
            {"use_separate_rgb_encoder_per_camera", config.use_separate_rgb_encoder_per_camera},
            {"spatial_softmax_num_keypoints", config.spatial_softmax_num_keypoints}}},
          {"noise_scheduler", NoiseScheduler(config)}};
}

// What LeRobot's config says, as overrides of the task's config.
std::vector<std::string> OverridesOf(const run::LerobotPolicyConfig& config) {
  const Json optimizer = {{"name", "adam"},
                          {"lr", config.optimizer_lr},
                          {"betas", config.optimizer_betas},
                          {"eps", config.optimizer_eps},
                          {"weight_decay", config.optimizer_weight_decay}};
  return {fmt::format("horizon={}", config.horizon),
          fmt::format("n_obs_steps={}", config.n_obs_steps),
          fmt::format("n_action_steps={}", config.n_action_steps),
          fmt::format("drop_n_last_frames={}", config.drop_n_last_frames),
          "policy.params=" + PolicyParams(config).dump(),
          "optimizer=" + optimizer.dump(),
          "training.lr_scheduler=" + config.scheduler_name,
          fmt::format("training.lr_warmup_steps={}", config.scheduler_warmup_steps),
          "training.rollout_every=0"};  // its training was not evaluated on seeds of ours
}

void RequireSameAction(const run::LerobotFeature& action, const ShapeMeta& shape_meta) {
  if (action.shape == shape_meta.action.shape) return;
  throw Error(ErrorCode::kShape,
              fmt::format("the policy's action is {}; the task's is {}", ToString(action.shape),
                          ToString(shape_meta.action.shape)));
}

// A policy with such a weight plans NaN for every observation.
void RequireFiniteWeights(const ArrayMap& weights, const std::filesystem::path& folder) {
  for (const auto& [name, array] : weights) {
    if (array.dtype() != DType::kFloat32) continue;
    const std::span<const float> values = array.as<float>();
    const auto bad = std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); });
    if (bad == values.end()) continue;
    throw Error(ErrorCode::kNumeric,
                fmt::format("'{}': expected finite weights, found {} in {}, at place {} of {}. The "
                            "training has diverged, or the file is damaged: import an earlier "
                            "checkpoint.",
                            folder.string(), *bad, name, bad - values.begin(), values.size()));
  }
}

std::vector<run::FeatureBinding> Import(const LerobotImport& request,
                                        const run::LerobotPolicy& source) {
  ExperimentOptions options = request.experiment;
  options.policy = "unet_hybrid";
  const std::vector<std::string> overrides = OverridesOf(source.config);
  options.overrides.insert(options.overrides.begin(), overrides.begin(), overrides.end());
  const Experiment experiment(options);
  const ShapeMeta& shape_meta = experiment.shape_meta();
  RequireSameAction(source.config.action, shape_meta);
  std::vector<run::FeatureBinding> bindings =
      run::BindFeatures(source.config.inputs, shape_meta, request.map);
  RejectUnknownKeys(experiment, {.makes_policy = true});

  const std::unique_ptr<Policy> policy = experiment.CreatePolicy();
  const run::ConditionOrder order = run::MakeConditionOrder(bindings, shape_meta, source.config);
  const ArrayMap weights = run::FromLerobotOrder(source.weights, order);
  run::LoadModuleState(policy->module(), weights, request.folder.string());
  const Normalizer normalizer = FromLerobotStats(source, bindings, shape_meta);

  run::CheckpointContents contents = {.config = experiment.config().ToJson(),
                                      .state = train::TrainState{}.ToJson()};
  contents.tensors[std::string(run::kEmaFile)] = weights;
  contents.tensors[std::string(run::kNormalizerFile)] =
      run::ToArrays(run::NormalizerState(normalizer));
  core::AtomicFolder folder(request.output);
  run::WriteCheckpointFiles(folder.temporary(), contents);
  folder.Commit();
  return bindings;
}

}  // namespace

std::vector<run::FeatureBinding> ImportLerobotPolicy(const LerobotImport& request) {
  const run::LerobotPolicy source = run::ReadLerobotPolicy(request.folder);
  RequireFiniteWeights(source.weights, request.folder);
  try {
    return Import(request, source);
  } catch (Error& error) {
    error.AddContext(
        fmt::format("in the import of '{}', whose config.json sets policy.params, "
                    "horizon, n_obs_steps and the optimizer",
                    request.folder.string()));
    throw;
  }
}

}  // namespace dp_bench::experiment
