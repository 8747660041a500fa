// A normalizer from the statistics of a dataset.
#pragma once

#include "dp_bench/dataset.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/spec.h"
#include "train/train_config.h"

namespace dp_bench::train {

/// Fits every key of `shape_meta` over all episodes, those of the validation set included, as
/// upstream does. Dimensions without range are named in a warning. Throws Error{kConfig} for a mode
/// given to a key that does not exist or does not have it.
Normalizer FitNormalizer(const Dataset& dataset, const ShapeMeta& shape_meta,
                         const NormalizerConfig& config);

/// What a policy can be tried with where there are no data: low_dim values have mean 0, std 1 and
/// range [-1, 1], colours mean and std 0.5.
Normalizer NeutralNormalizer(const ShapeMeta& shape_meta, const NormalizerConfig& config);

}  // namespace dp_bench::train
