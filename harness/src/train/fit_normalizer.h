// Fits a normalizer to the statistics of a dataset.
#pragma once

#include "dp_bench/dataset.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/spec.h"
#include "train/train_config.h"

namespace dp_bench::train {

/// Fits every key of `shape_meta` over all episodes, including the validation set, as upstream
/// does. A warning names dimensions without range. Throws Error{kConfig} for a mode of a key that
/// does not exist or does not allow that mode.
Normalizer FitNormalizer(const Dataset& dataset, const ShapeMeta& shape_meta,
                         const NormalizerConfig& config);

/// A normalizer to try a policy without data: low_dim values have mean 0, std 1 and range [-1, 1],
/// colours mean and std 0.5.
Normalizer NeutralNormalizer(const ShapeMeta& shape_meta, const NormalizerConfig& config);

}  // namespace dp_bench::train
