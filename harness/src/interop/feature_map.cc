// See feature_map.h. LeRobot's condition of an observation step: observation.state, the features of
// the cameras, observation.environment_state. Ours: the numbers in alphabetical order of their
// keys, then the cameras in alphabetical order.
#include "interop/feature_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "core/errors.h"
#include "core/split.h"

namespace dp_bench::interop {
namespace {

constexpr std::string_view kImage = "observation.image";  // and "observation.images.<camera>"
constexpr std::string_view kEncoder = "diffusion.rgb_encoder.";

struct Request {
  std::string feature;
  std::vector<std::string> keys;
};

Request ParseRequest(const std::string& text) {
  const std::size_t equals = text.find('=');
  Request request{.feature = text.substr(0, equals)};
  if (equals != std::string::npos) request.keys = core::Split(text.substr(equals + 1), ',');
  const bool has_empty = std::ranges::any_of(request.keys, &std::string::empty);
  if (request.feature.empty() || request.keys.empty() || has_empty) {
    throw UsageError("--map {}: expected <LeRobot's feature>=<key> or <feature>=<key>,<key>", text);
  }
  return request;
}

// The keys that are not assigned yet.
class FreeKeys {
 public:
  explicit FreeKeys(const ShapeMeta& shape_meta) : keys_(shape_meta.obs) {}

  const std::vector<KeySpec>& keys() const { return keys_; }

  bool Has(std::string_view name) const { return Find(name) != keys_.end(); }

  void Take(const std::string& name, const std::string& feature) {
    const auto found = Find(name);
    if (found == keys_.end()) {
      throw UsageError(
          "--map {}={}: the task has no such key, or it is assigned twice; free are {}", feature,
          name, fmt::join(Names(keys_), ", "));
    }
    keys_.erase(found);
  }

  static std::vector<std::string> Names(const std::vector<KeySpec>& keys) {
    std::vector<std::string> names;
    std::ranges::transform(keys, std::back_inserter(names), &KeySpec::name);
    return names;
  }

 private:
  std::vector<KeySpec>::const_iterator Find(std::string_view name) const {
    return std::ranges::find(keys_, name, &KeySpec::name);
  }

  std::vector<KeySpec> keys_;
};

// The key that nothing else can be, for a feature that was not asked for.
std::optional<std::string> OnlyKeyFor(const LerobotFeature& feature, const FreeKeys& free) {
  if (free.Has(feature.name)) return feature.name;
  std::vector<KeySpec> candidates;
  std::ranges::copy_if(free.keys(), std::back_inserter(candidates), [&](const KeySpec& key) {
    if (feature.type == LerobotFeatureType::kVisual) return key.type == KeyType::kRgb;
    return key.type == KeyType::kLowDim && key.NumElements() == NumElements(feature.shape);
  });
  if (candidates.size() != 1) return std::nullopt;
  return candidates[0].name;
}

const KeySpec& KeyOf(const ShapeMeta& shape_meta, std::string_view name) {
  return *std::ranges::find(shape_meta.obs, name, &KeySpec::name);
}

std::int64_t SizeOf(const std::vector<std::string>& keys, const ShapeMeta& shape_meta) {
  std::int64_t size = 0;
  for (const std::string& name : keys) size += KeyOf(shape_meta, name).NumElements();
  return size;
}

void RequireSize(const FeatureBinding& binding, const ShapeMeta& shape_meta) {
  const LerobotFeature& feature = binding.feature;
  const KeySpec& first = KeyOf(shape_meta, binding.keys[0]);
  const bool is_image = feature.type == LerobotFeatureType::kVisual;
  const bool fits = is_image ? binding.keys.size() == 1 && first.type == KeyType::kRgb &&
                                   first.shape == feature.shape
                             : first.type == KeyType::kLowDim &&
                                   SizeOf(binding.keys, shape_meta) == NumElements(feature.shape);
  if (fits) return;
  throw ShapeError(
      "the policy's '{}' is {}; the task's {} is {}", feature.name, ToString(feature.shape),
      fmt::join(binding.keys, " + "),
      is_image ? ToString(first.shape) : ToString(Shape{SizeOf(binding.keys, shape_meta)}));
}

void RequireNoKeyLeft(const FreeKeys& free) {
  if (free.keys().empty()) return;
  throw UsageError(
      "the policy has no input for the task's {}; choose another --obs, or assign keys with --map "
      "<feature>=<key>",
      fmt::join(FreeKeys::Names(free.keys()), ", "));
}

// Where each key begins in one observation step of LeRobot's condition. `image_width`: the features
// of one camera.
std::int64_t BeginOf(const std::string& key, const std::vector<FeatureBinding>& bindings,
                     const ShapeMeta& shape_meta, std::int64_t image_width) {
  std::int64_t begin = 0;
  for (const FeatureBinding& binding : bindings) {
    for (const std::string& name : binding.keys) {
      if (name == key) return begin;
      const KeySpec& spec = KeyOf(shape_meta, name);
      begin += spec.type == KeyType::kRgb ? image_width : spec.NumElements();
    }
  }
  DPB_ASSERT(false);
  return begin;
}

void RequireColumns(const std::string& name, const Array& weight, std::int64_t wanted) {
  if (weight.dtype() == DType::kFloat32 && weight.shape().size() == 2 &&
      weight.shape()[1] == wanted) {
    return;
  }
  throw CheckpointError(
      "the tensor '{}' is {} {}; expected float32 [out, {}]: the embedded step and the "
      "observations",
      name, Name(weight.dtype()), ToString(weight.shape()), wanted);
}

Array ReorderColumns(const std::string& name, const Array& weight, const ConditionOrder& order) {
  const auto width = std::ssize(order.columns);
  RequireColumns(name, weight, order.diffusion_step_embed_dim + order.n_obs_steps * width);
  Array result = weight;
  const std::int64_t n_columns = weight.shape()[1];
  const auto source = weight.as<float>();
  const auto target = result.as<float>();
  for (std::int64_t i = 0; i < std::ssize(target); ++i) {
    const std::int64_t place = i % n_columns - order.diffusion_step_embed_dim;
    if (place < 0) continue;
    const std::int64_t ours = place % width;
    const std::int64_t theirs = order.columns[static_cast<std::size_t>(ours)];
    target[static_cast<std::size_t>(i)] = source[static_cast<std::size_t>(i - ours + theirs)];
  }
  return result;
}

// "diffusion.rgb_encoder.1.out.bias" with our number of the encoder.
std::string RenameEncoder(const std::string& name, const ConditionOrder& order) {
  if (!name.starts_with(kEncoder)) return name;
  for (std::size_t ours = 0; ours < order.cameras.size(); ++ours) {
    const std::string theirs = fmt::format("{}{}.", kEncoder, order.cameras[ours]);
    if (name.starts_with(theirs)) {
      return fmt::format("{}{}.{}", kEncoder, ours, name.substr(theirs.size()));
    }
  }
  return name;
}

template <class Number>
std::vector<Number> Inverse(const std::vector<Number>& permutation) {
  std::vector<Number> inverse(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    inverse[static_cast<std::size_t>(permutation[i])] = static_cast<Number>(i);
  }
  return inverse;
}

// The feature that a key of ours becomes when nothing else was asked for. `is_first`: the first of
// the keys with numbers.
std::string DefaultFeature(const KeySpec& key, bool has_camera, bool is_first) {
  if (key.type != KeyType::kLowDim) {
    if (key.name.starts_with(kImage)) return key.name;
    return key.name == "image" ? std::string(kImage) : fmt::format("{}s.{}", kImage, key.name);
  }
  if (key.name == kLerobotState || key.name == kLerobotEnvState) return key.name;
  return std::string(has_camera || is_first ? kLerobotState : kLerobotEnvState);
}

LerobotFeature MakeFeature(const std::string& name, const std::vector<std::string>& keys,
                           const ShapeMeta& shape_meta) {
  LerobotFeature feature{.name = name, .shape = {SizeOf(keys, shape_meta)}};
  const KeySpec& first = KeyOf(shape_meta, keys[0]);
  if (name.starts_with(kImage) || first.type != KeyType::kLowDim) {
    feature.type = LerobotFeatureType::kVisual;
    feature.shape = first.shape;
  } else if (name == kLerobotEnvState) {
    feature.type = LerobotFeatureType::kEnv;
  }
  return feature;
}

void RequireNamesOfLerobot(const std::vector<FeatureBinding>& bindings) {
  for (const FeatureBinding& binding : bindings) {
    const std::string& name = binding.feature.name;
    if (name == kLerobotState || name == kLerobotEnvState || name.starts_with(kImage)) continue;
    throw UsageError(
        "--map {}: LeRobot's policy has no such input; expected {}, {}, {} or {}s.<camera>", name,
        kLerobotState, kLerobotEnvState, kImage, kImage);
  }
}

FeatureBinding* FindFeature(std::vector<FeatureBinding>& bindings, std::string_view name) {
  const auto found = std::ranges::find_if(
      bindings, [&](const FeatureBinding& binding) { return binding.feature.name == name; });
  return found == bindings.end() ? nullptr : &*found;
}

void RequireInputsOfLerobot(const std::vector<FeatureBinding>& bindings) {
  const auto has_type = [&](LerobotFeatureType type) {
    return std::ranges::any_of(
        bindings, [&](const FeatureBinding& binding) { return binding.feature.type == type; });
  };
  if (!has_type(LerobotFeatureType::kState) ||
      !(has_type(LerobotFeatureType::kVisual) || has_type(LerobotFeatureType::kEnv))) {
    std::vector<std::string> names;
    for (const FeatureBinding& binding : bindings) names.push_back(binding.feature.name);
    throw ConfigError(
        "LeRobot's policy needs '{}', and a camera or '{}'; this policy has only '{}'",
        kLerobotState, kLerobotEnvState, fmt::join(names, "', '"));
  }
}

void RefuseTaskKeys(const ShapeMeta& shape_meta) {
  for (const KeySpec& key : shape_meta.obs) {
    if (key.type != KeyType::kTask) continue;
    throw ConfigError("LeRobot's policies have no input for the task key '{}'", key.name);
  }
}

}  // namespace

std::vector<FeatureBinding> BindFeatures(const std::vector<LerobotFeature>& features,
                                         const ShapeMeta& shape_meta,
                                         std::span<const std::string> asked) {
  RefuseTaskKeys(shape_meta);
  std::vector<FeatureBinding> bindings;
  for (const LerobotFeature& feature : features) bindings.push_back({.feature = feature});
  FreeKeys free(shape_meta);
  for (const std::string& text : asked) {
    Request request = ParseRequest(text);
    FeatureBinding* binding = FindFeature(bindings, request.feature);
    if (binding == nullptr || !binding->keys.empty()) {
      throw UsageError("--map {}: the policy has no such input, or it is given twice", text);
    }
    for (const std::string& key : request.keys) free.Take(key, request.feature);
    binding->keys = std::move(request.keys);
  }
  for (FeatureBinding& binding : bindings) {
    if (!binding.keys.empty()) continue;
    const auto key = OnlyKeyFor(binding.feature, free);
    if (!key) {
      throw UsageError(
          "which of the task's keys is the policy's '{}' {}? Say it with --map {}=<key>; free are "
          "{}",
          binding.feature.name, ToString(binding.feature.shape), binding.feature.name,
          fmt::join(FreeKeys::Names(free.keys()), ", "));
    }
    free.Take(*key, binding.feature.name);
    binding.keys = {*key};
  }
  RequireNoKeyLeft(free);
  for (const FeatureBinding& binding : bindings) RequireSize(binding, shape_meta);
  return bindings;
}

std::vector<FeatureBinding> NameFeatures(const ShapeMeta& shape_meta,
                                         std::span<const std::string> asked) {
  RefuseTaskKeys(shape_meta);
  FreeKeys free(shape_meta);
  std::vector<FeatureBinding> bindings;
  for (const std::string& text : asked) {
    const Request request = ParseRequest(text);
    if (FindFeature(bindings, request.feature) != nullptr) {
      throw UsageError("--map {}: the feature is given twice; give all its keys at once", text);
    }
    for (const std::string& key : request.keys) free.Take(key, request.feature);
    bindings.push_back({MakeFeature(request.feature, request.keys, shape_meta), request.keys});
  }
  const bool has_camera = std::ranges::any_of(
      shape_meta.obs, [](const auto& key) { return key.type != KeyType::kLowDim; });
  bool is_first = FindFeature(bindings, kLerobotState) == nullptr && !free.Has(kLerobotState);
  for (const KeySpec& key : free.keys()) {
    const std::string name = DefaultFeature(key, has_camera, is_first);
    if (key.type == KeyType::kLowDim) is_first = false;
    FeatureBinding* binding = FindFeature(bindings, name);
    if (binding == nullptr) binding = &bindings.emplace_back();
    binding->keys.push_back(key.name);
    binding->feature = MakeFeature(name, binding->keys, shape_meta);
  }
  std::ranges::stable_sort(bindings, {}, [](const FeatureBinding& binding) {
    constexpr std::array kOrder = {LerobotFeatureType::kState, LerobotFeatureType::kVisual,
                                   LerobotFeatureType::kEnv};
    return std::ranges::find(kOrder, binding.feature.type) - kOrder.begin();
  });
  return bindings;
}

std::vector<FeatureBinding> MakeFeatures(const ShapeMeta& shape_meta,
                                         std::span<const std::string> asked) {
  std::vector<FeatureBinding> bindings = NameFeatures(shape_meta, asked);
  RequireNamesOfLerobot(bindings);
  RequireInputsOfLerobot(bindings);
  for (const FeatureBinding& binding : bindings) RequireSize(binding, shape_meta);
  return bindings;
}

const char* ActKeysParam(LerobotFeatureType type) {
  return type == LerobotFeatureType::kEnv ? "env_state_keys" : "state_keys";
}

ConditionOrder MakeConditionOrder(const std::vector<FeatureBinding>& bindings,
                                  const ShapeMeta& shape_meta, const LerobotPolicyConfig& config) {
  const std::int64_t image_width = 2 * std::int64_t{config.spatial_softmax_num_keypoints};
  ConditionOrder order{.n_obs_steps = config.n_obs_steps,
                       .diffusion_step_embed_dim = config.diffusion_step_embed_dim};
  for (const KeyType type : {KeyType::kLowDim, KeyType::kRgb}) {
    for (const KeySpec& key : shape_meta.obs) {
      if (key.type != type) continue;
      const std::int64_t begin = BeginOf(key.name, bindings, shape_meta, image_width);
      const std::int64_t width = type == KeyType::kRgb ? image_width : key.NumElements();
      for (std::int64_t i = 0; i < width; ++i) order.columns.push_back(begin + i);
    }
  }
  if (!config.use_separate_rgb_encoder_per_camera) return order;
  std::vector<std::string> theirs;
  for (const FeatureBinding& binding : bindings) {
    if (binding.feature.type == LerobotFeatureType::kVisual) theirs.push_back(binding.keys[0]);
  }
  for (const KeySpec& key : shape_meta.obs) {
    if (key.type != KeyType::kRgb) continue;
    order.cameras.push_back(
        static_cast<std::size_t>(std::ranges::find(theirs, key.name) - theirs.begin()));
  }
  return order;
}

ArrayMap FromLerobotOrder(const ArrayMap& weights, const ConditionOrder& order) {
  ArrayMap result;
  for (const auto& [name, array] : weights) {
    if (name.ends_with(".cond_encoder.1.weight")) {
      result[name] = ReorderColumns(name, array, order);
    } else {
      result[RenameEncoder(name, order)] = array;
    }
  }
  return result;
}

ArrayMap ToLerobotOrder(const ArrayMap& weights, const ConditionOrder& order) {
  ConditionOrder inverse = order;
  inverse.columns = Inverse(order.columns);
  inverse.cameras = Inverse(order.cameras);
  return FromLerobotOrder(weights, inverse);
}

}  // namespace dp_bench::interop
