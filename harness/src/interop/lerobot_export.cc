// See lerobot_export.h.
#include "interop/lerobot_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/atomic_file.h"
#include "dp_bench/error.h"
#include "dp_bench/policy.h"
#include "interop/lerobot_normalizer.h"
#include "interop/policy_folder.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_weights.h"
#include "run/run_files.h"

namespace dp_bench::interop {
namespace {

using Json = nlohmann::json;

constexpr const char* kPlugin = "unet_hybrid";

[[noreturn]] void Refuse(const std::string& setting, const std::string& found,
                         const std::string& wanted) {
  throw Error(ErrorCode::kConfig, fmt::format("{} is {}; LeRobot's diffusion policy has only {}",
                                              setting, found, wanted));
}

// The settings of the policy, with all defaults.
class Settings {
 public:
  explicit Settings(Json params) : params_(std::move(params)) {}

  template <class T>
  T Get(const std::string& pointer) const {
    return params_.at(Json::json_pointer(pointer)).get<T>();
  }
  template <class T>
  std::optional<T> GetOptional(const std::string& pointer) const {
    const Json::json_pointer place(pointer);
    if (!params_.contains(place) || params_.at(place).is_null()) return std::nullopt;
    return params_.at(place).get<T>();
  }

  // A setting that LeRobot does not have.
  void Require(const std::string& pointer, const std::vector<Json>& wanted) const {
    const Json::json_pointer place(pointer);
    const Json found = params_.contains(place) ? params_.at(place) : Json(nullptr);
    if (std::ranges::find(wanted, found) != wanted.end()) return;
    std::string name = "policy.params" + pointer;
    std::ranges::replace(name, '/', '.');
    Refuse(name, found.dump(), Json(wanted).dump());
  }

 private:
  Json params_;
};

void RequireWithinLerobot(const Settings& settings, bool has_camera) {
  settings.Require("/objective", {"diffusion"});
  settings.Require("/obs_as_global_cond", {true});
  settings.Require("/noise_scheduler/type", {"ddpm", "ddim"});
  settings.Require("/noise_scheduler/prediction_type", {"epsilon", "sample"});
  settings.Require("/noise_scheduler/beta_schedule",
                   {"squaredcos_cap_v2", "linear", "scaled_linear"});
  settings.Require("/noise_scheduler/timestep_spacing", {"leading"});
  settings.Require("/noise_scheduler/steps_offset", {0});
  if (settings.Get<std::string>("/noise_scheduler/type") == "ddim") {
    settings.Require("/noise_scheduler/set_alpha_to_one", {true});
    settings.Require("/noise_scheduler/eta", {0.0});
  }
  if (!has_camera) return;
  settings.Require("/obs_encoder/resnet_width", {64});
  settings.Require("/obs_encoder/resnet_stages", {4});
  if (settings.GetOptional<Shape>("/resize_shape")) settings.Require("/resize_first", {true});
}

// The crop in pixels; fractions are of the images, or with resize_first of what they become.
std::optional<Shape> CropOf(const Settings& settings, const Shape& image) {
  const auto asked = settings.GetOptional<std::vector<double>>("/crop_shape");
  if (!asked) return std::nullopt;
  const Shape whole =
      settings.GetOptional<Shape>("/resize_shape").value_or(Shape{image[1], image[2]});
  Shape crop;
  for (std::size_t i = 0; i < 2; ++i) {
    const double value = (*asked)[i];
    crop.push_back(std::llround(value < 1.0 ? value * static_cast<double>(whole[i]) : value));
  }
  return crop;
}

LerobotPolicyConfig MakeConfig(const Settings& settings, const Horizons& horizons,
                               const ShapeMeta& shape_meta,
                               const std::vector<FeatureBinding>& bindings) {
  LerobotPolicyConfig config;
  for (const FeatureBinding& binding : bindings) config.inputs.push_back(binding.feature);
  config.action = {.name = shape_meta.action.name,
                   .type = LerobotFeatureType::kAction,
                   .shape = shape_meta.action.shape};
  config.n_obs_steps = horizons.n_obs_steps;
  config.horizon = horizons.horizon;
  config.n_action_steps = horizons.n_action_steps;
  config.drop_n_last_frames = horizons.n_dropped_last_frames();
  config.down_dims = settings.Get<Shape>("/down_dims");
  config.kernel_size = settings.Get<int>("/kernel_size");
  config.n_groups = settings.Get<int>("/n_groups");
  config.diffusion_step_embed_dim = settings.Get<int>("/diffusion_step_embed_dim");
  config.use_film_scale_modulation = settings.Get<bool>("/cond_predict_scale");
  config.do_mask_loss_for_padding = settings.Get<bool>("/do_mask_loss_for_padding");
  config.use_group_norm = settings.Get<bool>("/obs_encoder/use_group_norm");
  config.use_separate_rgb_encoder_per_camera =
      settings.Get<bool>("/obs_encoder/use_separate_rgb_encoder_per_camera");
  config.spatial_softmax_num_keypoints =
      settings.Get<int>("/obs_encoder/spatial_softmax_num_keypoints");
  if (const auto cameras = config.cameras(); !cameras.empty()) {
    config.crop_is_random = settings.Get<bool>("/crop_is_random");
    config.resize_shape = settings.GetOptional<Shape>("/resize_shape");
    config.crop_shape = CropOf(settings, cameras[0].shape);
  }
  const std::string scheduler = "/noise_scheduler/";
  config.noise_scheduler_type =
      settings.Get<std::string>(scheduler + "type") == "ddim" ? "DDIM" : "DDPM";
  config.num_train_timesteps = settings.Get<int>(scheduler + "num_train_timesteps");
  config.num_inference_steps = settings.Get<int>(scheduler + "num_inference_steps");
  config.beta_schedule = settings.Get<std::string>(scheduler + "beta_schedule");
  config.beta_start = settings.Get<double>(scheduler + "beta_start");
  config.beta_end = settings.Get<double>(scheduler + "beta_end");
  config.prediction_type = settings.Get<std::string>(scheduler + "prediction_type");
  config.clip_sample = settings.Get<bool>(scheduler + "clip_sample");
  config.clip_sample_range = settings.Get<double>(scheduler + "clip_sample_range");
  return config;
}

// LeRobot halves the sequence once more than it needs to when it checks the horizon.
void RequireHorizonOfLerobot(const LerobotPolicyConfig& config) {
  const int factor = 1 << config.down_dims.size();
  if (config.horizon % factor == 0) return;
  Refuse(
      "horizon", std::to_string(config.horizon),
      fmt::format("multiples of {} with {} levels of down_dims", factor, config.down_dims.size()));
}

void SetTraining(const Config& config, LerobotPolicyConfig* result) {
  const Config optimizer = config.Sub("optimizer");
  result->optimizer_lr = optimizer.Get("lr", 1e-4);
  const auto betas = optimizer.Get("betas", std::vector<double>{0.95, 0.999});
  std::ranges::copy_n(betas.begin(), 2, result->optimizer_betas.begin());
  result->optimizer_eps = optimizer.Get("eps", 1e-8);
  result->optimizer_weight_decay = optimizer.Get("weight_decay", 1e-6);
  const Config training = config.Sub("training");
  result->scheduler_name = training.Get("lr_scheduler", std::string("cosine"));
  result->scheduler_warmup_steps =
      static_cast<int>(training.Get("lr_warmup_steps", std::int64_t{500}));
}

}  // namespace

std::vector<std::string> ReadLerobotMap(const Config& section) {
  return section.Get<std::vector<std::string>>(
      "map", {}, "features of LeRobot's policy with their keys, as --map says them");
}

std::vector<FeatureBinding> ExportLerobotPolicy(const run::Checkpoint& checkpoint,
                                                plugin::PluginCatalogue& catalogue,
                                                const LerobotExport& request) {
  const Config config =
      Config::FromJson(checkpoint.config(), (checkpoint.folder() / run::kConfigFile).string());
  const auto plugin = config.Sub("policy").Get<std::string>("plugin");
  if (plugin != kPlugin) Refuse("policy.plugin", plugin, kPlugin);
  // its defaults become part of the config
  const std::unique_ptr<Policy> policy = planner::CreatePolicy(config, catalogue);
  const Settings settings(Json::parse(config.Sub("policy").Sub("params").ToJson()));
  const ShapeMeta shape_meta = ShapeMeta::FromConfig(config.Sub("shape_meta"));
  std::vector<FeatureBinding> bindings = MakeFeatures(
      shape_meta, request.map.empty() ? ReadLerobotMap(config.Sub("lerobot")) : request.map);

  LerobotPolicy result;
  result.config = MakeConfig(settings, Horizons::FromConfig(config), shape_meta, bindings);
  RequireWithinLerobot(settings, !result.config.cameras().empty());
  RequireHorizonOfLerobot(result.config);
  SetTraining(config, &result.config);
  const bool has_ema = checkpoint.Has(run::kEmaFile);
  planner::LoadPolicyWeights(checkpoint, *policy,
                             has_ema ? planner::Weights::kEma : planner::Weights::kModel);
  result.weights = ToLerobotOrder(planner::ModuleState(policy->module()),
                                  MakeConditionOrder(bindings, shape_meta, result.config));
  ToLerobotStats(planner::NormalizerOf(checkpoint), bindings, &result);

  core::AtomicFolder folder(request.output);
  WriteLerobotPolicy(folder.temporary(), result);
  folder.Commit();
  return bindings;
}

}  // namespace dp_bench::interop
