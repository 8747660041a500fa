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

#include "config/loader.h"
#include "core/atomic_file.h"
#include "core/errors.h"
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

// The backbone's learning rate, if it has another one.
Json BackboneRule(const interop::LerobotPolicyConfig& config) {
  Json rules = Json::array();
  const double rate = config.act.optimizer_lr_backbone;
  if (config.cameras().empty() || rate == config.optimizer_lr) return rules;
  rules.push_back({{"pattern", "model.backbone"}, {"lr_scale", rate / config.optimizer_lr}});
  return rules;
}

// What LeRobot's config says, as overrides of the task's config.
std::vector<std::string> OverridesOf(const interop::LerobotPolicyConfig& config) {
  Json settings = interop::ToSettings(config);
  Json& params = settings["policy"]["params"];
  if (config.is_act()) {
    params["obs_encoder"]["use_group_norm"] = false;
    settings["optimizer"]["name"] = "adamw";
    settings["optimizer"]["param_groups"] = BackboneRule(config);
    settings["training"]["lr_scheduler"] = "constant";
    settings["drop_n_last_frames"] = 0;
  } else {
    params["resize_first"] = true;
    // what LeRobot leaves at diffusers' defaults
    params["noise_scheduler"].update({{"timestep_spacing", "leading"},
                                      {"steps_offset", 0},
                                      {"set_alpha_to_one", true},
                                      {"eta", 0.0}});
    settings["optimizer"]["name"] = "adam";
  }
  settings["training"]["rollout_every"] = 0;  // it was not evaluated on seeds of ours
  std::vector<std::string> overrides = {"policy.params=" + params.dump(),
                                        "optimizer=" + settings["optimizer"].dump()};
  for (const auto& [key, value] : settings["training"].items()) {
    overrides.push_back(fmt::format("training.{}={}", key, value.dump()));
  }
  for (const auto& [key, value] : settings.items()) {  // the horizons
    if (!value.is_object()) overrides.push_back(fmt::format("{}={}", key, value.dump()));
  }
  return overrides;
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
    throw UsageError("--map, --obs, --task and overrides need --env or --config");
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
  overrides.push_back(fmt::format("policy.plugin={}", config.plugin()));
  overrides.push_back("shape_meta=" + shape_meta.dump());
  return Config(config::LoadConfigDocument({.overrides = overrides}));
}

void RequireSameAction(const interop::LerobotFeature& action, const ShapeMeta& shape_meta) {
  if (action.shape == shape_meta.action.shape) return;
  throw ShapeError("the policy's action is {}; the task's is {}", ToString(action.shape),
                   ToString(shape_meta.action.shape));
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

// ACT joins the keys of a feature in the order of the binding.
Config WithActKeys(const Config& config, const std::vector<interop::FeatureBinding>& bindings) {
  Json changed = Json::parse(config.ToJson());
  for (const interop::FeatureBinding& binding : bindings) {
    if (binding.feature.type == interop::LerobotFeatureType::kVisual) continue;
    changed["policy"]["params"][interop::ActKeysParam(binding.feature.type)] = binding.keys;
  }
  return Config::FromJson(changed.dump());
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
    throw NumericError(
        "'{}': expected finite weights, found {} in {}, at place {} of {}. The training has "
        "diverged, or the file is damaged: import an earlier checkpoint.",
        folder.string(), *bad, name, bad - values.begin(), values.size());
  }
}

std::vector<interop::FeatureBinding> Import(const LerobotImport& request,
                                            const interop::LerobotPolicy& source) {
  std::optional<Experiment> experiment;
  if (HasTask(request)) {
    ExperimentOptions options = request.experiment;
    options.policy = source.config.plugin();
    const std::vector<std::string> overrides = OverridesOf(source.config);
    options.overrides.insert(options.overrides.begin(), overrides.begin(), overrides.end());
    experiment.emplace(options);
  }
  Config config = experiment ? experiment->config() : ConfigOf(source.config);
  const ShapeMeta shape_meta = ShapeMeta::FromConfig(config.Sub("shape_meta"));
  RequireSameAction(source.config.action, shape_meta);
  std::vector<interop::FeatureBinding> bindings = Bind(source.config.inputs, shape_meta, request);
  if (experiment) RejectUnknownKeys(*experiment, {.makes_policy = true});
  if (source.config.is_act()) config = WithActKeys(config, bindings);

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
