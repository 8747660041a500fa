#include "key_mapping.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "dp_bench/config_keys.h"
#include "dp_bench/error.h"

namespace dp_bench::lerobot {
namespace {

constexpr std::size_t kMaxAxes = 8;

// LeRobot adds these columns to every dataset.
const std::set<std::string>& OwnColumns() {
  static const std::set<std::string> columns = {"timestamp", "frame_index", "episode_index",
                                                "index", "task_index"};
  return columns;
}

std::string KeyName(std::string_view feature) {
  for (const std::string_view begin : {"observation.images.", "observation."}) {
    if (feature.starts_with(begin)) return std::string(feature.substr(begin.size()));
  }
  return std::string(feature);
}

KeyConfigs KeysOfFeatures(const Metadata& metadata) {
  KeyConfigs keys;
  std::vector<std::string> left_out;
  for (const auto& [name, feature] : metadata.features) {
    if (feature.kind == Feature::Kind::kOther) left_out.push_back(name);
    const bool is_empty = !feature.is_camera() && NumElements(feature.shape) == 0;
    if (feature.kind == Feature::Kind::kOther || is_empty || OwnColumns().contains(name) ||
        name.starts_with("next.")) {
      continue;
    }
    const auto [other, is_new] = keys.emplace(KeyName(name), KeyConfig{.source = name});
    if (!is_new) {
      throw Error(ErrorCode::kData,
                  fmt::format("{}: the features '{}' and '{}' would have the same key '{}'; name "
                              "them in dataset.params.keys",
                              metadata.root.string(), other->second.source, name, other->first));
    }
  }
  if (!keys.contains("action")) {
    throw Error(ErrorCode::kData,
                fmt::format("{} has no feature 'action'; name the features in dataset.params.keys, "
                            "such as {{\"action\": {{\"feature\": \"actions\"}}}}",
                            metadata.root.string()));
  }
  if (!left_out.empty()) {
    reader::WarnUser(fmt::format("{}: left out, because they hold neither numbers nor images: {}",
                                 metadata.root.string(), reader::ListFirst(left_out)));
  }
  return keys;
}

KeyConfigs DefaultKeys(const Metadata& metadata) {
  const std::optional<Config> sources = ReadKeySources(metadata.root);
  if (!sources) return KeysOfFeatures(metadata);
  KeyConfigs keys;
  for (const std::string& key : sources->Keys()) {
    keys[key] = ReadFeatureKey(sources->Sub(key));
  }
  sources->RejectUnread();
  return keys;
}

}  // namespace

KeyConfig ReadFeatureKey(const Config& key) {
  KeyConfig config = reader::ReadKeyConfig(
      key, "feature",
      "the feature, such as observation.state; none for that of the key without a map");
  const ConfigKeys keys(key);
  keys("names", &config.names,
       "channels to take, by the names in meta/info.json and in this order; numbers only, none for "
       "all");
  keys("shape", &config.shape, "shape of the key, such as [9, 2]; none for a list of the numbers");
  keys("mm_per_level", &config.mm_per_level, 1e-3, 1e4,
       "mm per level of depth that is stored in images with 8 bits, as in recordings of Kuavo "
       "robots; required for them");
  return config;
}

KeyConfigs ChooseKeys(const Metadata& metadata, const KeyConfigs& asked) {
  std::optional<KeyConfigs> all;
  const auto find_all = [&]() -> const KeyConfigs& {
    if (!all) all = DefaultKeys(metadata);
    return *all;
  };
  return reader::CompleteKeys(asked, find_all, metadata.root.string(), "feature");
}

const Feature& FindFeature(const Metadata& metadata, const std::string& key,
                           const std::string& feature) {
  const auto found = metadata.features.find(feature);
  if (found == metadata.features.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : metadata.features) names.push_back(name);
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': {} has no feature '{}'; its features are: {}", key,
                            metadata.root.string(), feature, fmt::join(names, ", ")));
  }
  if (found->second.kind == Feature::Kind::kOther) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' holds neither numbers nor "
                            "images",
                            key, feature));
  }
  return found->second;
}

NumbersKey MapNumbers(const std::string& name, const Feature& feature, const KeyConfig& config) {
  const auto n = static_cast<std::int64_t>(NumElements(feature.shape));
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' has shape {}; {}", name,
                            feature.name, ToString(feature.shape), what));
  };
  if (n == 0) refuse("it has no numbers");
  if (config.type.value_or(KeyType::kLowDim) != KeyType::kLowDim || config.mm_per_level) {
    refuse("type and mm_per_level are for images");
  }

  NumbersKey key{.spec = {.name = name, .shape = feature.shape}};
  std::vector<std::size_t>& channels = key.channels;
  KeySpec& spec = key.spec;
  if (!config.names.empty()) {
    if (config.is_sliced()) refuse("give names, or begin and end");
    for (const std::string& channel : config.names) {
      const auto place = std::ranges::find(feature.channels, channel);
      if (place == feature.channels.end()) {
        refuse(fmt::format("it has no channel '{}'; its channels are: {}", channel,
                           feature.channels.empty()
                               ? "not named"
                               : fmt::format("{}", fmt::join(feature.channels, ", "))));
      }
      if (std::ranges::count(feature.channels, channel) > 1) {
        refuse(fmt::format("several of its channels are named '{}'; give begin and end", channel));
      }
      channels.push_back(static_cast<std::size_t>(place - feature.channels.begin()));
    }
  } else if (config.is_sliced()) {
    const auto [begin, end] = reader::SliceOf(config, n, refuse);
    channels.resize(static_cast<std::size_t>(end - begin));
    std::iota(channels.begin(), channels.end(), static_cast<std::size_t>(begin));
  }
  if (!channels.empty()) {
    spec.shape = {static_cast<std::int64_t>(channels.size())};
  }
  if (!config.shape.empty()) {
    const bool is_positive = std::ranges::all_of(config.shape, [](auto size) { return size > 0; });
    if (!is_positive || config.shape.size() > kMaxAxes ||
        NumElements(config.shape) != NumElements(spec.shape)) {
      refuse(fmt::format("its {} numbers do not have the shape {}", NumElements(spec.shape),
                         ToString(config.shape)));
    }
    spec.shape = config.shape;
  }
  if (name == "action" && spec.shape.size() != 1) refuse("the action is a list of numbers");
  return key;
}

CameraKey MapCamera(const std::string& name, const Feature& feature, const KeyConfig& config) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kConfig,
                fmt::format("dataset key '{}': the feature '{}' {}", name, feature.name, what));
  };
  if (name == "action") refuse("holds images; the action is a list of numbers");
  if (!config.names.empty() || config.is_sliced() || !config.shape.empty()) {
    refuse("holds images; names, begin, end and shape are for numbers");
  }
  const KeyType type = config.type.value_or(feature.is_depth ? KeyType::kDepth : KeyType::kRgb);
  if (type == KeyType::kLowDim) refuse("holds images; its type is rgb or depth");
  std::optional<DepthScale> depth;
  if (type == KeyType::kRgb) {
    const bool may_be_depth =
        feature.is_depth || (!config.type && feature.name.find("depth") != std::string::npos);
    if (feature.n_channels == 1 && may_be_depth) {
      refuse("has one channel; expected \"type\": \"depth\" (or \"rgb\" for grey images)");
    }
    if (config.mm_per_level) refuse("is read as colours; mm_per_level is for depth");
  } else if (feature.depth_code) {
    if (config.mm_per_level) refuse("has its own scale in meta/info.json; leave out mm_per_level");
    depth = DepthScale::OfCodes(*feature.depth_code);
  } else if (config.mm_per_level) {
    depth = DepthScale::OfLevels(*config.mm_per_level);
  } else if (feature.kind == Feature::Kind::kVideo) {
    refuse("is a video without a scale in meta/info.json; give mm_per_level");
  } else {
    depth = DepthScale::OfUnit(feature.depth_unit);
  }

  const bool is_rgb = type == KeyType::kRgb;
  return {.spec = {.name = name,
                   .type = type,
                   .shape = {is_rgb ? 3 : 1, feature.height, feature.width},
                   .dtype = is_rgb ? DType::kUInt8 : DType::kUInt16},
          .depth = std::move(depth)};
}

}  // namespace dp_bench::lerobot
