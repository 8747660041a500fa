// Chooses the mode of each key and computes its statistics.
#include "train/fit_normalizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <vector>

#include "core/console.h"
#include "data/stats.h"
#include "dp_bench/error.h"

namespace dp_bench::train {
namespace {

std::string DefaultModeOf(const KeySpec& key, const NormalizerConfig& config) {
  if (key.type == KeyType::kRgb) return config.default_rgb;
  return key.type == KeyType::kDepth ? "depth" : config.default_mode;
}

// The modes that each kind of key allows.
bool Fits(NormalizeMode mode, KeyType type) {
  switch (mode) {
    case NormalizeMode::kLimits:
    case NormalizeMode::kGaussian:
    case NormalizeMode::kIdentity:
      return type == KeyType::kLowDim;
    case NormalizeMode::kImage:
    case NormalizeMode::kImageGaussian:
      return type == KeyType::kRgb;
    case NormalizeMode::kDepth:
      return type == KeyType::kDepth;
  }
  return false;
}

NormalizeMode ModeOf(const KeySpec& key, const NormalizerConfig& config) {
  const auto named = config.modes.find(key.name);
  const std::string name = named != config.modes.end() ? named->second : DefaultModeOf(key, config);
  const NormalizeMode mode = ParseNormalizeMode(name);
  if (Fits(mode, key.type)) return mode;
  throw Error(ErrorCode::kConfig,
              fmt::format("normalizer.{} is '{}'; low_dim keys have limits, gaussian or identity, "
                          "rgb keys image or image_gaussian, depth keys depth; this key is {}",
                          key.name, name, Name(key.type)));
}

KeyStats StatsFor(NormalizeMode mode, const Dataset& dataset, const KeySpec& key,
                  const NormalizerConfig& config) {
  switch (mode) {
    case NormalizeMode::kImage:
      return {};  // scaled by their range only
    case NormalizeMode::kImageGaussian:
      return data::ComputeChannelStats(dataset, dataset.KeyIndex(key.name));
    case NormalizeMode::kDepth:
      return {.min = {config.depth_range[0]}, .max = {config.depth_range[1]}};
    default:
      return data::ComputeStats(dataset, dataset.KeyIndex(key.name));
  }
}

void RequireKnownKeys(const std::vector<KeySpec>& keys, const NormalizerConfig& config) {
  for (const auto& [name, mode] : config.modes) {
    if (std::ranges::find(keys, name, &KeySpec::name) == keys.end()) {
      throw Error(ErrorCode::kConfig,
                  fmt::format("normalizer.{} names no key of shape_meta; it has: {}", name,
                              fmt::join(keys | std::views::transform(&KeySpec::name), ", ")));
    }
  }
}

// All normalized keys: the observations and the action.
std::vector<KeySpec> KeysOf(const ShapeMeta& shape_meta, const NormalizerConfig& config) {
  std::vector<KeySpec> keys = shape_meta.obs;
  keys.push_back(shape_meta.action);
  RequireKnownKeys(keys, config);
  return keys;
}

}  // namespace

Normalizer FitNormalizer(const Dataset& dataset, const ShapeMeta& shape_meta,
                         const NormalizerConfig& config) {
  Normalizer normalizer;
  for (const KeySpec& key : KeysOf(shape_meta, config)) {
    const NormalizeMode mode = ModeOf(key, config);
    normalizer.Fit(key.name, StatsFor(mode, dataset, key, config), mode);
    const std::vector<int>& flat = normalizer.fields().find(key.name)->second.zero_range_dims;
    if (!flat.empty()) {
      core::LogWarning(
          fmt::format("'{}' never changes in dimensions [{}]: they are centred, not scaled",
                      key.name, fmt::join(flat, ", ")));
    }
  }
  return normalizer;
}

Normalizer NeutralNormalizer(const ShapeMeta& shape_meta, const NormalizerConfig& config) {
  Normalizer normalizer;
  for (const KeySpec& key : KeysOf(shape_meta, config)) {
    const NormalizeMode mode = ModeOf(key, config);
    const auto all = [&](std::int64_t n, double value) {
      return std::vector<double>(static_cast<std::size_t>(n), value);
    };
    const std::int64_t n = key.NumElements();
    KeyStats stats = {
        .min = all(n, -1.0), .max = all(n, 1.0), .mean = all(n, 0.0), .std = all(n, 1.0)};
    if (mode == NormalizeMode::kImageGaussian) {
      stats = {.mean = all(key.shape[0], 0.5), .std = all(key.shape[0], 0.5)};
    }
    if (mode == NormalizeMode::kDepth) {
      stats = {.min = {config.depth_range[0]}, .max = {config.depth_range[1]}};
    }
    normalizer.Fit(key.name, stats, mode);
  }
  return normalizer;
}

}  // namespace dp_bench::train
