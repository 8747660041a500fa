// The normalization of a LeRobot policy as a Normalizer, and back. Formulas: LeRobot's
// processor/normalize_processor.py. MEAN_STD: (x - mean) / (std + eps), back x * std + mean.
// MIN_MAX: 2 (x - min) / (max - min) - 1, where a range of zero counts as eps.
#pragma once

#include <vector>

#include "dp_bench/normalizer.h"
#include "dp_bench/spec.h"
#include "interop/feature_map.h"
#include "interop/policy_folder.h"

namespace dp_bench::interop {

/// `policy` has the statistics of all its features. A dimension of an observation without range is
/// centred and not scaled: LeRobot multiplies what differs from its one value by 1 / eps.
Normalizer FromLerobotStats(const LerobotPolicy& policy,
                            const std::vector<FeatureBinding>& bindings,
                            const ShapeMeta& shape_meta);

/// Sets the statistics and the normalization of `policy`, so that LeRobot normalizes as
/// `normalizer` does. If LeRobot's formulas make `normalizer` from the statistics that are recorded
/// in it, these are taken unchanged. Or else they are computed from scale and offset, with MEAN_STD
/// for images, and for numbers MIN_MAX unless all keys of their type are gaussian.
void ToLerobotStats(const Normalizer& normalizer, const std::vector<FeatureBinding>& bindings,
                    LerobotPolicy* policy);

}  // namespace dp_bench::interop
