// See lerobot_export.h.
#include "interop/lerobot_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "dp_bench/policy.h"
#include "interop/lerobot_normalizer.h"
#include "interop/policy_folder.h"
#include "planner/create_from_checkpoint.h"
#include "planner/policy_weights.h"
#include "run/run_files.h"

namespace dp_bench::interop {
namespace {

using Json = nlohmann::json;

[[noreturn]] void Refuse(const std::string& setting, const std::string& found,
                         const std::string& wanted) {
  throw ConfigError("{} is {}; LeRobot's policy has only {}", setting, found, wanted);
}

std::string PointerTo(const std::string& param) { return "/policy/params/" + param; }

// A setting of the policy that LeRobot does not have. `settings`: the config with all defaults.
void RequireSetting(const Json& settings, const std::string& param,
                    const std::vector<Json>& wanted) {
  const Json found = settings.value(Json::json_pointer(PointerTo(param)), Json(nullptr));
  if (std::ranges::find(wanted, found) != wanted.end()) return;
  std::string name = PointerTo(param).substr(1);
  std::ranges::replace(name, '/', '.');
  Refuse(name, found.dump(), Json(wanted).dump());
}

// LeRobot halves the sequence once more than it needs to when it checks the horizon.
void RequireHorizonOfLerobot(const LerobotPolicyConfig& config) {
  const int factor = 1 << config.down_dims.size();
  if (config.horizon % factor == 0) return;
  Refuse(
      "horizon", std::to_string(config.horizon),
      fmt::format("multiples of {} with {} levels of down_dims", factor, config.down_dims.size()));
}

void RequireWithinAct(const Json& settings, const LerobotPolicyConfig& config) {
  if (config.n_obs_steps != 1) Refuse("n_obs_steps", std::to_string(config.n_obs_steps), "1");
  if (config.act.temporal_ensemble_coeff && config.n_action_steps != config.horizon) {
    Refuse("n_action_steps", std::to_string(config.n_action_steps),
           fmt::format("{} with temporal ensembling: the mean of all plans of its horizon",
                       config.horizon));
  }
  if (config.cameras().empty()) return;
  for (const char* param : {"crop_shape", "resize_shape"}) {
    RequireSetting(settings, param, {nullptr});
  }
  RequireSetting(settings, "obs_encoder/use_group_norm", {false});
}

void RequireWithinDiffusion(const Json& settings, const LerobotPolicyConfig& config) {
  const auto require = [&](const char* param, const std::vector<Json>& wanted) {
    RequireSetting(settings, param, wanted);
  };
  const Json coeff = settings.value("temporal_ensemble_coeff", Json(nullptr));
  if (!coeff.is_null()) Refuse("temporal_ensemble_coeff", coeff.dump(), "null");
  require("objective", {"diffusion"});
  require("obs_as_global_cond", {true});
  require("max_prefix", {0});
  require("noise_scheduler/type", {"ddpm", "ddim"});
  require("noise_scheduler/prediction_type", {"epsilon", "sample"});
  require("noise_scheduler/beta_schedule", {"squaredcos_cap_v2", "linear", "scaled_linear"});
  require("noise_scheduler/timestep_spacing", {"leading"});
  require("noise_scheduler/steps_offset", {0});
  if (config.noise_scheduler_type == "DDIM") {
    require("noise_scheduler/set_alpha_to_one", {true});
    require("noise_scheduler/eta", {0.0});
  }
  if (config.resize_shape) require("resize_first", {true});
}

void RequireWithinLerobot(const Json& settings, const LerobotPolicyConfig& config) {
  if (config.is_act()) {
    RequireWithinAct(settings, config);
  } else {
    RequireWithinDiffusion(settings, config);
    RequireHorizonOfLerobot(config);
  }
  if (config.cameras().empty()) return;
  RequireSetting(settings, "obs_encoder/resnet_width", {64});
  RequireSetting(settings, "obs_encoder/resnet_stages", {4});
}

// The crop in pixels; fractions are of the images, or with resize_first of what they become.
std::optional<Shape> CropOf(const Json& settings, const Shape& whole) {
  const Json asked = settings.value(Json::json_pointer(PointerTo("crop_shape")), Json(nullptr));
  if (asked.is_null()) return std::nullopt;
  Shape crop;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto value = asked.at(i).get<double>();
    crop.push_back(std::llround(value <= 1.0 ? value * static_cast<double>(whole[i]) : value));
  }
  return crop;
}

LerobotPolicyConfig MakeConfig(const Json& settings, const Horizons& horizons,
                               const ShapeMeta& shape_meta,
                               const std::vector<FeatureBinding>& bindings) {
  LerobotPolicyConfig config;
  const auto& plugin =
      settings.at(Json::json_pointer("/policy/plugin")).get_ref<const std::string&>();
  if (plugin == kActPlugin) config.type = kLerobotAct;
  TakeSettings(settings, &config);
  config.act.optimizer_lr_backbone = config.optimizer_lr;
  for (const FeatureBinding& binding : bindings) config.inputs.push_back(binding.feature);
  config.action = {.name = shape_meta.action.name,
                   .type = LerobotFeatureType::kAction,
                   .shape = shape_meta.action.shape};
  config.drop_n_last_frames = horizons.n_dropped_last_frames();
  const std::vector<LerobotFeature> cameras = config.cameras();
  if (cameras.empty()) {
    config.resize_shape.reset();
    config.crop_shape.reset();
  } else {
    const Shape& image = cameras[0].shape;
    config.crop_shape = CropOf(settings, config.resize_shape.value_or(Shape{image[1], image[2]}));
  }
  return config;
}

// The keys of ACT's token for the state of the robot or of the env, in their order.
std::vector<std::string> ActKeys(const Json& params, const ShapeMeta& shape_meta,
                                 LerobotFeatureType type) {
  using Names = std::vector<std::string>;
  const auto asked = [&](LerobotFeatureType of) {
    return params.value(ActKeysParam(of), Json(nullptr));
  };
  const Json env_state = asked(LerobotFeatureType::kEnv);
  const Json wanted = asked(type);
  if (!wanted.is_null()) return wanted.get<Names>();
  Names rest;  // of the state, all others; the state of the env has no default
  for (const KeySpec& key : shape_meta.obs) {
    const bool is_of_env =
        std::find(env_state.begin(), env_state.end(), Json(key.name)) != env_state.end();
    if (type == LerobotFeatureType::kState && key.type == KeyType::kLowDim && !is_of_env) {
      rest.push_back(key.name);
    }
  }
  return rest;
}

// ACT's features of numbers are its tokens, unless `map` says the same.
std::vector<FeatureBinding> ActFeatures(const Json& settings, const ShapeMeta& shape_meta,
                                        std::vector<std::string> map) {
  const Json& params = settings.at(Json::json_pointer("/policy/params"));
  const auto state = ActKeys(params, shape_meta, LerobotFeatureType::kState);
  const auto env_state = ActKeys(params, shape_meta, LerobotFeatureType::kEnv);
  const auto is_mapped = [given = map](const std::string& key) {
    return std::ranges::any_of(given, [&key](const std::string& request) {
      const std::string keys = "," + request.substr(request.find('=') + 1) + ",";
      return keys.find("," + key + ",") != std::string::npos;
    });
  };
  const auto add = [&](std::string_view feature, std::vector<std::string> keys) {
    std::erase_if(keys, is_mapped);
    const std::string begin = fmt::format("{}=", feature);
    const bool is_given = std::ranges::any_of(
        map, [&](const std::string& request) { return request.starts_with(begin); });
    if (!is_given && !keys.empty()) map.push_back(fmt::format("{}{}", begin, fmt::join(keys, ",")));
  };
  add(kLerobotState, state);
  add(kLerobotEnvState, env_state);
  std::vector<FeatureBinding> bindings = MakeFeatures(shape_meta, map);
  for (const FeatureBinding& binding : bindings) {
    if (binding.feature.type == LerobotFeatureType::kVisual) continue;
    const auto& wanted = binding.feature.type == LerobotFeatureType::kEnv ? env_state : state;
    if (binding.keys == wanted) continue;
    throw UsageError("--map {}: expected the keys of policy.params.{}, {}, found {}",
                     binding.feature.name, ActKeysParam(binding.feature.type),
                     fmt::join(wanted, ", "), fmt::join(binding.keys, ", "));
  }
  return bindings;
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
  const bool is_act = plugin == kActPlugin;
  if (!is_act && plugin != kDiffusionPlugin) {
    Refuse("policy.plugin", plugin, fmt::format("{} and {}", kDiffusionPlugin, kActPlugin));
  }
  // its defaults become part of the config
  const std::unique_ptr<Policy> policy = planner::CreatePolicy(config, catalogue);
  const Json settings = Json::parse(config.ToJson());
  const ShapeMeta shape_meta = ShapeMeta::FromConfig(config.Sub("shape_meta"));
  const std::vector<std::string> map =
      request.map.empty() ? ReadLerobotMap(config.Sub("lerobot")) : request.map;
  std::vector<FeatureBinding> bindings =
      is_act ? ActFeatures(settings, shape_meta, map) : MakeFeatures(shape_meta, map);

  LerobotPolicy result;
  result.config = MakeConfig(settings, Horizons::FromConfig(config), shape_meta, bindings);
  RequireWithinLerobot(settings, result.config);
  planner::LoadPolicyWeights(checkpoint, *policy, planner::EvaluatedWeights(checkpoint));
  result.weights = ToLerobotOrder(planner::ModuleState(policy->module()),
                                  MakeConditionOrder(bindings, shape_meta, result.config));
  ToLerobotStats(planner::NormalizerOf(checkpoint), bindings, &result);

  core::AtomicFolder folder(request.output);
  WriteLerobotPolicy(folder.temporary(), result);
  folder.Commit();
  return bindings;
}

}  // namespace dp_bench::interop
