// The choice of mode per key, and its statistics.
#include "train/fit_normalizer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/stats.h"
#include "dp_bench/error.h"

namespace dp_bench {
namespace {

NormalizeMode ModeOf(const KeySpec& key, const NormalizerConfig& config) {
  const auto named = config.modes.find(key.name);
  if (named != config.modes.end()) return ParseNormalizeMode(named->second);
  if (key.type == KeyType::kRgb) return NormalizeMode::kImage;
  return ParseNormalizeMode(config.default_mode);
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

}  // namespace

Normalizer FitNormalizer(const Dataset& dataset, const ShapeMeta& shape_meta,
                         const NormalizerConfig& config) {
  std::vector<KeySpec> keys = shape_meta.obs;
  keys.push_back(shape_meta.action);
  RequireKnownKeys(keys, config);

  Normalizer normalizer;
  for (const KeySpec& key : keys) {
    const NormalizeMode mode = ModeOf(key, config);
    KeyStats stats;  // images are scaled by their range alone
    if (mode != NormalizeMode::kImage) stats = ComputeStats(dataset, dataset.KeyIndex(key.name));
    normalizer.Fit(key.name, stats, mode);
    const std::vector<int>& flat = normalizer.fields().find(key.name)->second.zero_range_dims;
    if (!flat.empty()) {
      LogWarning(fmt::format("'{}' never changes in dimensions [{}]: they are centred, not scaled",
                             key.name, fmt::join(flat, ", ")));
    }
  }
  return normalizer;
}

}  // namespace dp_bench
