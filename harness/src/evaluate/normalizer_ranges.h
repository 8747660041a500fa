// The ranges of the training data that a policy's normalizer was fitted to. Includes LibTorch.
#pragma once

#include "dp_bench/normalizer.h"
#include "dp_bench/spec.h"
#include "run/episode_record.h"

namespace dp_bench::evaluate {

/// The ranges of those low-dimensional keys of `shape_meta` whose minimum and maximum the
/// normalizer keeps.
run::ObsRanges ObsRangesOf(const Normalizer& normalizer, const ShapeMeta& shape_meta);

}  // namespace dp_bench::evaluate
