// The choice of mode per key, its statistics, and the formulas of diffusion_policy's
// LinearNormalizer.
#include "train/fit_normalizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/console.h"
#include "core/errors.h"
#include "data/stats.h"
#include "policy/normalize_mode.h"

namespace dp_bench::train {
namespace {

using policy::kOutputMax;
using policy::kOutputMin;
using policy::kRangeEps;
using Numbers = std::vector<double>;

Numbers Range(const KeyStats& stats) {
  Numbers range;
  for (std::size_t i = 0; i < stats.min.size(); ++i) range.push_back(stats.max[i] - stats.min[i]);
  return range;
}

void RequireUsable(const std::string& key, std::string_view name, const Numbers& numbers,
                   std::size_t wanted_size) {
  if (numbers.empty() || numbers.size() != wanted_size) {
    throw DataError(
        "the statistics of '{}' have {} values of {}, expected {}; compute them from the dataset "
        "again",
        key, numbers.size(), name, wanted_size);
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (std::isfinite(numbers[i])) continue;
    throw NumericError(
        "{} of '{}' is {} in dimension {}; the dataset holds values that are not finite", name, key,
        numbers[i], i);
  }
}

struct ScaleAndOffset {
  Numbers scale;
  Numbers offset;
};

ScaleAndOffset FitLimits(const KeyStats& stats, double min_range) {
  constexpr double kOutputMiddle = (kOutputMax + kOutputMin) / 2.0;
  ScaleAndOffset result;
  const Numbers range = Range(stats);
  for (std::size_t i = 0; i < range.size(); ++i) {
    double scale = 1.0;
    double offset = kOutputMiddle - stats.min[i];
    if (range[i] < min_range) {
      scale = (kOutputMax - kOutputMin) / min_range;
      offset = kOutputMiddle - scale * (stats.min[i] + range[i] / 2.0);
    } else if (range[i] >= kRangeEps) {
      scale = (kOutputMax - kOutputMin) / range[i];
      offset = kOutputMin - scale * stats.min[i];
    }
    result.scale.push_back(scale);
    result.offset.push_back(offset);
  }
  return result;
}

ScaleAndOffset FitGaussian(const KeyStats& stats, double min_range) {
  const double min_std = min_range / std::sqrt(12.0);  // of a uniform draw from such a range
  ScaleAndOffset result;
  for (std::size_t i = 0; i < stats.mean.size(); ++i) {
    const double std = std::max(stats.std[i], min_std);
    const double scale = std < kRangeEps ? 1.0 : 1.0 / std;
    result.scale.push_back(scale);
    result.offset.push_back(-stats.mean[i] * scale);
  }
  return result;
}

// From [min, max] to [0, 1].
ScaleAndOffset FitDepth(const std::string& key, const KeyStats& stats) {
  const double range = Range(stats)[0];
  if (range < kRangeEps) {
    throw DataError("the depth range of '{}' is {} to {} m; expected min < max", key, stats.min[0],
                    stats.max[0]);
  }
  return {{1.0 / range}, {-stats.min[0] / range}};
}

std::string DefaultModeOf(const KeySpec& key, const NormalizerConfig& config) {
  switch (key.type) {
    case KeyType::kLowDim:
      return config.default_mode;
    case KeyType::kRgb:
      return config.default_rgb;
    case KeyType::kDepth:
      return "depth";
    case KeyType::kTask:
      return "identity";
  }
  return "";
}

// The modes that each kind of key allows.
bool Fits(NormalizeMode mode, KeyType type) {
  switch (mode) {
    case NormalizeMode::kLimits:
    case NormalizeMode::kGaussian:
      return type == KeyType::kLowDim;
    case NormalizeMode::kIdentity:
      return type == KeyType::kLowDim || type == KeyType::kTask;
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
  const NormalizeMode mode = policy::ParseNormalizeMode(name);
  if (Fits(mode, key.type)) return mode;
  throw ConfigError(
      "normalizer.{} is '{}'; low_dim keys have limits, gaussian or identity, rgb keys image or "
      "image_gaussian, depth keys depth, task keys identity; this key is {}",
      key.name, name, Name(key.type));
}

// 0: none.
double MinRangeOf(const KeySpec& key, NormalizeMode mode, const NormalizerConfig& config) {
  const auto found = config.min_range.find(key.name);
  if (found == config.min_range.end()) return 0.0;
  if (mode == NormalizeMode::kLimits || mode == NormalizeMode::kGaussian) return found->second;
  throw ConfigError(
      "normalizer.min_range.{} is for the modes limits and gaussian; normalizer.{} is {}", key.name,
      key.name, policy::NameOf(mode));
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
  std::vector<std::string> names;
  for (const KeySpec& key : keys) names.push_back(key.name);
  const auto require = [&](const std::string& name, std::string_view where) {
    if (std::ranges::find(names, name) != names.end()) return;
    throw ConfigError("{}.{} names no key of shape_meta; it has: {}", where, name,
                      fmt::join(names, ", "));
  };
  for (const auto& [name, mode] : config.modes) require(name, "normalizer");
  for (const auto& [name, range] : config.min_range) require(name, "normalizer.min_range");
}

// All normalized keys: the observations and the action.
std::vector<KeySpec> KeysOf(const ShapeMeta& shape_meta, const NormalizerConfig& config) {
  std::vector<KeySpec> keys = shape_meta.obs;
  keys.push_back(shape_meta.action);
  RequireKnownKeys(keys, config);
  return keys;
}

}  // namespace

Normalizer::Fields::value_type FitKey(const std::string& key, const KeyStats& stats,
                                      NormalizeMode mode, double min_range) {
  ScaleAndOffset fit;
  switch (mode) {
    case NormalizeMode::kLimits:
      RequireUsable(key, "min", stats.min, stats.min.size());
      RequireUsable(key, "max", stats.max, stats.min.size());
      fit = FitLimits(stats, min_range);
      break;
    case NormalizeMode::kGaussian:
    case NormalizeMode::kImageGaussian:
      RequireUsable(key, "mean", stats.mean, stats.mean.size());
      RequireUsable(key, "std", stats.std, stats.mean.size());
      fit = FitGaussian(stats, min_range);
      break;
    case NormalizeMode::kIdentity:
      RequireUsable(key, "min", stats.min, stats.min.size());
      fit = {Numbers(stats.min.size(), 1.0), Numbers(stats.min.size(), 0.0)};
      break;
    case NormalizeMode::kDepth:
      RequireUsable(key, "min", stats.min, 1);
      RequireUsable(key, "max", stats.max, 1);
      fit = FitDepth(key, stats);
      break;
    case NormalizeMode::kImage:
      fit = {{kOutputMax - kOutputMin}, {kOutputMin}};
      break;
  }
  return {key,
          {.scale = torch::tensor(fit.scale, torch::kFloat32),
           .offset = torch::tensor(fit.offset, torch::kFloat32),
           .stats = mode == NormalizeMode::kImage ? KeyStats{} : stats,
           .mode = mode,
           .zero_range_dims = policy::FindZeroRangeDims(stats, mode)}};
}

Normalizer FitNormalizer(const Dataset& dataset, const ShapeMeta& shape_meta,
                         const NormalizerConfig& config) {
  Normalizer::Fields fields;
  for (const KeySpec& key : KeysOf(shape_meta, config)) {
    const NormalizeMode mode = ModeOf(key, config);
    const auto [field, is_new] = fields.insert(FitKey(
        key.name, StatsFor(mode, dataset, key, config), mode, MinRangeOf(key, mode, config)));
    const std::vector<int>& flat = field->second.zero_range_dims;
    if (!flat.empty()) {
      core::LogWarning("'{}' never changes in dimensions [{}]: they are centred", key.name,
                       fmt::join(flat, ", "));
    }
  }
  return Normalizer(std::move(fields));
}

Normalizer NeutralNormalizer(const ShapeMeta& shape_meta, const NormalizerConfig& config) {
  Normalizer::Fields fields;
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
    fields.insert(FitKey(key.name, stats, mode, MinRangeOf(key, mode, config)));
  }
  return Normalizer(std::move(fields));
}

}  // namespace dp_bench::train
