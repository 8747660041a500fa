// See normalizer_ranges.h.
#include "evaluate/normalizer_ranges.h"

namespace dp_bench::evaluate {

run::ObsRanges ObsRangesOf(const Normalizer& normalizer, const ShapeMeta& shape_meta) {
  run::ObsRanges ranges;
  for (const KeySpec& key : shape_meta.obs) {
    const auto field = normalizer.fields().find(key.name);
    if (key.type != KeyType::kLowDim || field == normalizer.fields().end()) continue;
    const KeyStats& stats = field->second.stats;
    const auto n = static_cast<std::size_t>(key.NumElements());
    if (stats.min.size() != n || stats.max.size() != n) continue;
    ranges[key.name] = {.low = stats.min, .high = stats.max};
  }
  return ranges;
}

}  // namespace dp_bench::evaluate
