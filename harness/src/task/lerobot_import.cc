// See lerobot_import.h.
#include "task/lerobot_import.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "config/loader.h"
#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "interop/lerobot_normalizer.h"
#include "interop/policy_folder.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_weights.h"
#include "plugin/catalogue.h"
#include "run/checkpoint.h"
#include "task/experiment.h"
#include "task/key_check.h"
#include "train/train_state.h"

namespace dp_bench::task {
namespace {

using Json = nlohmann::json;

constexpr const char* kImportedPlugin = "unet_hybrid";

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json NoiseScheduler(const interop::LerobotPolicyConfig& config) {
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

Json PolicyParams(const interop::LerobotPolicyConfig& config) {
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
std::vector<std::string> OverridesOf(const interop::LerobotPolicyConfig& config) {
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

// The key that the reader of LeRobot datasets makes of a feature.
std::string KeyNameOf(const std::string& feature) {
  std::string name = feature;
  for (const std::string_view begin : {"observation.images.", "observation."}) {
    if (name.starts_with(begin)) return name.substr(begin.size());
  }
  return name;
}

bool HasTask(const LerobotImport& request) {
  const ExperimentOptions& options = request.experiment;
  if (!options.env.empty() || !options.config.empty()) return true;
  if (!request.map.empty() || !options.overrides.empty() || !options.obs.empty() ||
      !options.task.empty()) {
    throw Error(ErrorCode::kUsage, "--map, --obs, --task and overrides need --env or --config");
  }
  return false;
}

// For a policy without a task: each input is a key of its own.
Config ConfigOf(const interop::LerobotPolicyConfig& config) {
  Json shape_meta = {{"action", {{"shape", config.action.shape}}}};
  for (const interop::LerobotFeature& input : config.inputs) {
    const bool is_image = input.type == interop::LerobotFeatureType::kVisual;
    shape_meta["obs"][KeyNameOf(input.name)] = {{"shape", input.shape},
                                                {"type", is_image ? "rgb" : "low_dim"},
                                                {"dtype", is_image ? "uint8" : "float32"}};
  }
  std::vector<std::string> overrides = OverridesOf(config);
  overrides.push_back(std::string("policy.plugin=") + kImportedPlugin);
  overrides.push_back("shape_meta=" + shape_meta.dump());
  return Config(config::LoadConfigDocument({.overrides = overrides}));
}

void RequireSameAction(const interop::LerobotFeature& action, const ShapeMeta& shape_meta) {
  if (action.shape == shape_meta.action.shape) return;
  throw Error(ErrorCode::kShape,
              fmt::format("the policy's action is {}; the task's is {}", ToString(action.shape),
                          ToString(shape_meta.action.shape)));
}

std::vector<interop::FeatureBinding> Bind(const std::vector<interop::LerobotFeature>& inputs,
                                          const ShapeMeta& shape_meta,
                                          const LerobotImport& request) {
  std::vector<std::string> map = request.map;
  if (!HasTask(request)) {
    for (const interop::LerobotFeature& input : inputs) {
      map.push_back(fmt::format("{}={}", input.name, KeyNameOf(input.name)));
    }
  }
  return interop::BindFeatures(inputs, shape_meta, map);
}

// So that an export gives the features their names again.
std::string NoteBindings(const Config& config,
                         const std::vector<interop::FeatureBinding>& bindings) {
  Json noted = Json::parse(config.ToJson());
  for (const interop::FeatureBinding& binding : bindings) {
    noted["lerobot"]["map"].push_back(
        fmt::format("{}={}", binding.feature.name, fmt::join(binding.keys, ",")));
  }
  return noted.dump(2);
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

std::vector<interop::FeatureBinding> Import(const LerobotImport& request,
                                            const interop::LerobotPolicy& source) {
  std::optional<Experiment> experiment;
  if (HasTask(request)) {
    ExperimentOptions options = request.experiment;
    options.policy = kImportedPlugin;
    const std::vector<std::string> overrides = OverridesOf(source.config);
    options.overrides.insert(options.overrides.begin(), overrides.begin(), overrides.end());
    experiment.emplace(options);
  }
  const Config config = experiment ? experiment->config() : ConfigOf(source.config);
  const ShapeMeta shape_meta = ShapeMeta::FromConfig(config.Sub("shape_meta"));
  RequireSameAction(source.config.action, shape_meta);
  std::vector<interop::FeatureBinding> bindings = Bind(source.config.inputs, shape_meta, request);
  if (experiment) RejectUnknownKeys(*experiment, {.makes_policy = true});

  plugin::PluginCatalogue catalogue(
      plugin::PluginCatalogue::DefaultSearchPath(request.experiment.plugin_dirs));
  const std::unique_ptr<Policy> policy = planner::CreatePolicy(config, catalogue);
  const interop::ConditionOrder order =
      interop::MakeConditionOrder(bindings, shape_meta, source.config);
  const ArrayMap weights = interop::FromLerobotOrder(source.weights, order);
  planner::LoadModuleState(policy->module(), weights, request.folder.string());
  const Normalizer normalizer = interop::FromLerobotStats(source, bindings, shape_meta);

  run::CheckpointContents contents = {.config = NoteBindings(config, bindings),
                                      .state = train::TrainState{}.ToJson()};
  contents.tensors[std::string(run::kEmaFile)] = weights;
  contents.tensors[std::string(run::kNormalizerFile)] =
      planner::ToArrays(planner::NormalizerState(normalizer));
  core::AtomicFolder folder(request.output);
  run::WriteCheckpointFiles(folder.temporary(), contents);
  folder.Commit();
  return bindings;
}

}  // namespace

std::vector<interop::FeatureBinding> ImportLerobotPolicy(const LerobotImport& request) {
  const interop::LerobotPolicy source = interop::ReadLerobotPolicy(request.folder);
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

}  // namespace dp_bench::task
