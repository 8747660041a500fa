// See lerobot_export.h.
#include "interop/lerobot_export.h"

#include <fmt/format.h>

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

constexpr const char* kPlugin = "unet_hybrid";

[[noreturn]] void Refuse(const std::string& setting, const std::string& found,
                         const std::string& wanted) {
  throw ConfigError("{} is {}; LeRobot's diffusion policy has only {}", setting, found, wanted);
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

void RequireWithinLerobot(const Json& settings, const LerobotPolicyConfig& config) {
  const auto require = [&](const char* param, const std::vector<Json>& wanted) {
    RequireSetting(settings, param, wanted);
  };
  require("objective", {"diffusion"});
  require("obs_as_global_cond", {true});
  require("noise_scheduler/type", {"ddpm", "ddim"});
  require("noise_scheduler/prediction_type", {"epsilon", "sample"});
  require("noise_scheduler/beta_schedule", {"squaredcos_cap_v2", "linear", "scaled_linear"});
  require("noise_scheduler/timestep_spacing", {"leading"});
  require("noise_scheduler/steps_offset", {0});
  if (config.noise_scheduler_type == "DDIM") {
    require("noise_scheduler/set_alpha_to_one", {true});
    require("noise_scheduler/eta", {0.0});
  }
  if (config.cameras().empty()) return;
  require("obs_encoder/resnet_width", {64});
  require("obs_encoder/resnet_stages", {4});
  if (config.resize_shape) require("resize_first", {true});
}

// The crop in pixels; fractions are of the images, or with resize_first of what they become.
std::optional<Shape> CropOf(const Json& settings, const Shape& whole) {
  const Json asked = settings.value(Json::json_pointer(PointerTo("crop_shape")), Json(nullptr));
  if (asked.is_null()) return std::nullopt;
  Shape crop;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto value = asked.at(i).get<double>();
    crop.push_back(std::llround(value < 1.0 ? value * static_cast<double>(whole[i]) : value));
  }
  return crop;
}

LerobotPolicyConfig MakeConfig(const Json& settings, const Horizons& horizons,
                               const ShapeMeta& shape_meta,
                               const std::vector<FeatureBinding>& bindings) {
  LerobotPolicyConfig config;
  TakeSettings(settings, &config);
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

// LeRobot halves the sequence once more than it needs to when it checks the horizon.
void RequireHorizonOfLerobot(const LerobotPolicyConfig& config) {
  const int factor = 1 << config.down_dims.size();
  if (config.horizon % factor == 0) return;
  Refuse(
      "horizon", std::to_string(config.horizon),
      fmt::format("multiples of {} with {} levels of down_dims", factor, config.down_dims.size()));
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
  const Json settings = Json::parse(config.ToJson());
  const ShapeMeta shape_meta = ShapeMeta::FromConfig(config.Sub("shape_meta"));
  std::vector<FeatureBinding> bindings = MakeFeatures(
      shape_meta, request.map.empty() ? ReadLerobotMap(config.Sub("lerobot")) : request.map);

  LerobotPolicy result;
  result.config = MakeConfig(settings, Horizons::FromConfig(config), shape_meta, bindings);
  RequireWithinLerobot(settings, result.config);
  RequireHorizonOfLerobot(result.config);
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
