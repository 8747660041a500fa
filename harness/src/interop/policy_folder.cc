// Format: LeRobot's processor pipelines of 0.4 to 0.6 (processor/pipeline.py,
// processor/normalize_processor.py) and, until 0.3, policies/normalize.py.
#include "interop/policy_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/json.h"
#include "run/safetensors.h"

namespace dp_bench::interop {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kDevice = "device_processor";

void RequireFileName(const core::JsonView& step, const std::string& name) {
  const bool is_name = !name.empty() && name.front() != '.' &&
                       name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
  if (is_name) return;
  step.Fail("state_file: expected the name of a file, found '{}'", name);
}

// Steps that move data or rename what the robot sends, and change no number.
bool ChangesNothing(std::string_view step) {
  return step == "rename_observations_processor" || step == "to_batch_processor" || step == kDevice;
}

void RequireFloat32(const core::JsonView& step) {
  if (!step.Has("config")) return;
  const core::JsonView config = step.At("config");
  const std::string dtype = config.GetOptional<std::string>("float_dtype").value_or("float32");
  if (dtype == "float32" || dtype == "float") return;
  config.Fail("float_dtype: expected float32 or null, found '{}': dp_bench plans with float32",
              dtype);
}

// nlohmann::json sorts the features, hence the ordered one.
std::vector<std::string> CamerasInOrder(const core::JsonView& features,
                                        const OrderedJson& ordered) {
  std::vector<std::string> cameras;
  for (const auto& item : ordered.items()) {
    const auto type = features.At(item.key()).Get<std::string>("type");
    if (type == Name(LerobotFeatureType::kVisual)) cameras.push_back(item.key());
  }
  return cameras;
}

namespace fs = std::filesystem;

constexpr std::size_t kMaxJsonBytes = std::size_t{16} << 20;
constexpr const char* kConfigName = "config.json";
constexpr const char* kModelName = "model.safetensors";
constexpr const char* kPreprocessor = "policy_preprocessor";
constexpr const char* kPreprocessorName = "policy_preprocessor.json";
constexpr const char* kPostprocessor = "policy_postprocessor";
constexpr const char* kPostprocessorName = "policy_postprocessor.json";
constexpr const char* kNormalizer = "normalizer_processor";
constexpr const char* kUnnormalizer = "unnormalizer_processor";

using StatMember = std::vector<double> KeyStats::*;

constexpr std::array<std::pair<std::string_view, StatMember>, 4> kNamedStats = {
    {{"min", &KeyStats::min},
     {"max", &KeyStats::max},
     {"mean", &KeyStats::mean},
     {"std", &KeyStats::std}}};

std::vector<double> ToNumbers(const Array& array, const fs::path& path, std::string_view name) {
  const auto copy = [](auto values) { return std::vector<double>(values.begin(), values.end()); };
  if (array.dtype() == DType::kFloat32) return copy(array.as<float>());
  if (array.dtype() == DType::kFloat64) return copy(array.as<double>());
  throw CheckpointError("'{}': {}: expected float32 or float64, found {}", path.string(), name,
                        Name(array.dtype()));
}

// Takes the statistics of one feature out of `tensors`, where their names start with `prefix`.
KeyStats TakeStats(const fs::path& path, const std::string& prefix, ArrayMap* tensors) {
  KeyStats stats;
  for (const auto& [name, member] : kNamedStats) {
    const auto found = tensors->find(fmt::format("{}.{}", prefix, name));
    if (found == tensors->end()) continue;
    stats.*member = ToNumbers(found->second, path, found->first);
    tensors->erase(found);
  }
  return stats;
}

// The layout since 0.4. LeRobot normalizes as the processors say, whatever config.json says.
void ReadProcessors(const fs::path& folder, LerobotPolicy* policy) {
  const auto read = [&](const char* name, const char* step) {
    const fs::path path = folder / name;
    return ParseLerobotProcessor(core::ReadTextFile(path, kMaxJsonBytes), path, step);
  };
  const LerobotProcessor pre = read(kPreprocessorName, kNormalizer);
  const LerobotProcessor post = read(kPostprocessorName, kUnnormalizer);
  ArrayMap pre_stats = run::ReadSafetensors(folder / pre.state_file).tensors;
  ArrayMap post_stats = run::ReadSafetensors(folder / post.state_file).tensors;
  std::vector<std::string> cameras;
  for (const LerobotFeature& camera : policy->config.cameras()) cameras.push_back(camera.name);
  if (pre.cameras != cameras) {
    throw CheckpointError(
        "'{}': the cameras are {}; {} has {}: the two files are of different policies, or cameras "
        "were swapped",
        (folder / kPreprocessorName).string(), fmt::join(pre.cameras, ", "), kConfigName,
        fmt::join(cameras, ", "));
  }
  policy->eps = pre.eps;
  LerobotNormMap& norms = policy->config.normalization_mapping;
  norms = pre.norm_map;
  norms.erase(LerobotFeatureType::kAction);
  const auto of_action = post.norm_map.find(LerobotFeatureType::kAction);
  if (of_action != post.norm_map.end()) norms.insert(*of_action);
  for (const LerobotFeature& input : policy->config.inputs) {
    policy->stats[input.name] = TakeStats(folder / pre.state_file, input.name, &pre_stats);
  }
  const std::string& action = policy->config.action.name;
  policy->stats[action] = TakeStats(folder / post.state_file, action, &post_stats);
}

// The layout until 0.3: the statistics are buffers of the model.
void TakeStatsFromWeights(const fs::path& path, LerobotPolicy* policy) {
  const auto buffer = [](const char* module, std::string feature) {
    std::ranges::replace(feature, '.', '_');
    return fmt::format("{}.buffer_{}", module, feature);
  };
  for (const LerobotFeature& input : policy->config.inputs) {
    policy->stats[input.name] =
        TakeStats(path, buffer("normalize_inputs", input.name), &policy->weights);
  }
  const std::string& action = policy->config.action.name;
  policy->stats[action] = TakeStats(path, buffer("unnormalize_outputs", action), &policy->weights);
  TakeStats(path, buffer("normalize_targets", action), &policy->weights);  // for training
}

void RequireStat(const fs::path& folder, const LerobotFeature& feature, std::string_view name,
                 const std::vector<double>& values) {
  const std::string stat = fmt::format("the statistic {} of '{}'", name, feature.name);
  if (values.empty()) {
    throw CheckpointError(
        "'{}': {} is missing; without it LeRobot would leave the values as they are",
        folder.string(), stat);
  }
  const std::int64_t wanted = feature.shape.front();  // of an image: its channels
  if (std::ssize(values) != wanted) {
    throw CheckpointError("'{}': {}: expected {} values, found {}", folder.string(), stat, wanted,
                          values.size());
  }
  const auto bad = std::ranges::find_if_not(values, [](double x) { return std::isfinite(x); });
  if (bad != values.end()) {
    throw CheckpointError("'{}': {} is {} in dimension {}: it was never computed", folder.string(),
                          stat, *bad, bad - values.begin());
  }
}

void RequireStats(const fs::path& folder, const LerobotPolicy& policy) {
  const auto require = [&](const LerobotFeature& feature) {
    const KeyStats& stats = policy.stats.at(feature.name);
    const LerobotNorm norm = policy.config.NormOf(feature.type);
    if (norm == LerobotNorm::kMinMax) {
      RequireStat(folder, feature, "min", stats.min);
      RequireStat(folder, feature, "max", stats.max);
    }
    if (norm == LerobotNorm::kMeanStd) {
      RequireStat(folder, feature, "mean", stats.mean);
      RequireStat(folder, feature, "std", stats.std);
    }
  };
  std::ranges::for_each(policy.config.inputs, require);
  require(policy.config.action);
}

// Without the parts that DistributedDataParallel and torch.compile put into the name of a tensor.
std::string WithoutMarks(std::string name) {
  for (const std::string_view mark : {"module.", "_orig_mod."}) {
    for (std::size_t at = 0; (at = name.find(mark, at)) != std::string::npos;) {
      if (at == 0 || name[at - 1] == '.') {
        name.erase(at, mark.size());
      } else {
        at += mark.size();
      }
    }
  }
  return name;
}

// Weights may be saved from within other modules: "module.diffusion.unet...",
// "model.diffusion.unet...". What stands before all names is left out. `root_name`: "diffusion."
// or, of ACT, "model.".
ArrayMap WithoutWrappers(const fs::path& path, std::string_view root_name, ArrayMap&& tensors) {
  ArrayMap result;
  std::string wrapper;
  for (auto& [name, array] : tensors) {
    std::string clean = WithoutMarks(name);
    const std::size_t root = clean.find(fmt::format(".{}", root_name));
    if (root != std::string::npos && !clean.starts_with(root_name))
      wrapper = clean.substr(0, root + 1);
    if (!result.emplace(clean, std::move(array)).second) {
      throw CheckpointError("'{}': two tensors have the name '{}' without the marks of wrappers",
                            path.string(), clean);
    }
  }
  const auto is_wrapped = [&](const auto& item) { return item.first.starts_with(wrapper); };
  if (wrapper.empty() || !std::ranges::all_of(result, is_wrapped)) return result;
  ArrayMap inner;
  for (auto& [name, array] : result) inner[name.substr(wrapper.size())] = std::move(array);
  return inner;
}

bool IsCamera(const LerobotPolicyConfig& config, std::string_view feature) {
  return std::ranges::any_of(config.cameras(),
                             [&](const LerobotFeature& camera) { return camera.name == feature; });
}

ArrayMap StatTensors(const LerobotPolicy& policy) {
  ArrayMap tensors;
  for (const auto& [feature, stats] : policy.stats) {
    for (const auto& [name, member] : kNamedStats) {
      const std::vector<double>& values = stats.*member;
      if (values.empty()) continue;
      const auto n = static_cast<std::int64_t>(values.size());
      Array array(DType::kFloat32, IsCamera(policy.config, feature) ? Shape{n, 1, 1} : Shape{n});
      std::ranges::transform(values, array.as<float>().begin(),
                             [](double x) { return static_cast<float>(x); });
      tensors[fmt::format("{}.{}", feature, name)] = std::move(array);
    }
  }
  return tensors;
}

// A step that normalizes, and the file with its numbers.
OrderedJson NormalizingStep(const LerobotPolicy& policy, const char* step,
                            const std::vector<LerobotFeature>& features,
                            const std::string& state_file) {
  return {{"registry_name", step},
          {"config",
           {{"eps", policy.eps},
            {"features", AsJson(features)},
            {"norm_map", AsJson(policy.config.normalization_mapping)}}},
          {"state_file", state_file}};
}

OrderedJson PlainStep(const char* name, const OrderedJson& config) {
  return {{"registry_name", name}, {"config", config}};
}

void WriteJson(const fs::path& path, const OrderedJson& json) {
  core::WriteFileAtomically(path, json.dump(2) + "\n");
}

}  // namespace

LerobotProcessor ParseLerobotProcessor(std::string_view text, const std::filesystem::path& path,
                                       std::string_view wanted_step) {
  const std::string what = fmt::format("'{}'", path.string());
  const nlohmann::json json = core::ParseJson(text, what, ErrorCode::kCheckpoint);
  const core::JsonView file(json, what, ErrorCode::kCheckpoint);
  const OrderedJson ordered = OrderedJson::parse(text);
  LerobotProcessor processor;
  const std::vector<core::JsonView> steps = file.Elements("steps");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const core::JsonView& step = steps[i];
    const auto kind = step.Get<std::string>("registry_name");
    if (kind == kDevice) RequireFloat32(step);
    if (ChangesNothing(kind)) continue;
    if (kind != wanted_step || !processor.state_file.empty()) {
      step.Fail("expected one {}, found {}: dp_bench does not know what it computes", wanted_step,
                kind);
    }
    const core::JsonView config = step.At("config");
    if (config.Has("normalize_observation_keys")) {
      config.Fail(
          "normalize_observation_keys: expected null, found {}: dp_bench normalizes all "
          "observations",
          config.At("normalize_observation_keys").json().dump());
    }
    processor.norm_map = ReadLerobotNormMap(config.At("norm_map"));
    processor.eps = config.Get<double>("eps");
    processor.cameras = CamerasInOrder(config.At("features"),
                                       ordered.at("steps").at(i).at("config").at("features"));
    processor.state_file = step.Get<std::string>("state_file");
    RequireFileName(step, processor.state_file);
  }
  if (processor.state_file.empty()) file.Fail("expected a step {}", wanted_step);
  return processor;
}

LerobotPolicy ReadLerobotPolicy(const fs::path& folder) {
  LerobotPolicy policy;
  policy.config = ParseLerobotPolicyConfig(core::ReadTextFile(folder / kConfigName, kMaxJsonBytes),
                                           folder / kConfigName);
  policy.weights =
      WithoutWrappers(folder / kModelName, policy.config.is_act() ? "model." : "diffusion.",
                      run::ReadSafetensors(folder / kModelName).tensors);
  if (fs::exists(folder / kPreprocessorName)) {
    ReadProcessors(folder, &policy);
  } else {
    TakeStatsFromWeights(folder / kModelName, &policy);
  }
  RequireStats(folder, policy);
  return policy;
}

void WriteLerobotPolicy(const fs::path& folder, const LerobotPolicy& policy) {
  const std::string pre_state = fmt::format("{}_step_3_{}.safetensors", kPreprocessor, kNormalizer);
  const std::string post_state =
      fmt::format("{}_step_0_{}.safetensors", kPostprocessor, kUnnormalizer);
  std::vector<LerobotFeature> all = policy.config.inputs;
  all.push_back(policy.config.action);
  const OrderedJson device = PlainStep(kDevice, {{"device", "cpu"}, {"float_dtype", nullptr}});

  core::WriteFileAtomically(folder / kConfigName, ToJson(policy.config));
  run::WriteSafetensors(folder / kModelName, policy.weights, {{"format", "pt"}});
  const ArrayMap stats = StatTensors(policy);
  run::WriteSafetensors(folder / pre_state, stats);
  run::WriteSafetensors(folder / post_state, stats);
  WriteJson(
      folder / kPreprocessorName,
      {{"name", kPreprocessor},
       {"steps", OrderedJson::array({PlainStep("rename_observations_processor",
                                               {{"rename_map", OrderedJson::object()}}),
                                     PlainStep("to_batch_processor", OrderedJson::object()), device,
                                     NormalizingStep(policy, kNormalizer, all, pre_state)})}});
  WriteJson(folder / kPostprocessorName,
            {{"name", kPostprocessor},
             {"steps", OrderedJson::array({NormalizingStep(policy, kUnnormalizer,
                                                           {policy.config.action}, post_state),
                                           device})}});
}

}  // namespace dp_bench::interop
