// Fits a normalizer to the statistics of a dataset.
#pragma once

#include <string>

#include "dp_bench/dataset.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/spec.h"
#include "train/train_config.h"

namespace dp_bench::train {

/// A field of a Normalizer under its key. `stats`: per dimension; for image_gaussian per channel,
/// of values in [0, 1]; for depth the range [m] in min[0] and max[0]. A dimension without range
/// gets scale 1 and the offset that centres it, as upstream does, and is listed in zero_range_dims
/// so that the caller can name it. With limits and gaussian, a dimension that changes by less than
/// `min_range` is centred and scaled as if it had this range; gaussian takes the deviation of a
/// uniform draw from it.
Normalizer::Fields::value_type FitKey(const std::string& key, const KeyStats& stats,
                                      NormalizeMode mode, double min_range = 0.0);

/// Fits every key of `shape_meta` over all episodes, including those of the validation set, as
/// upstream does. Dimensions without range are named in a warning. Throws Error{kConfig} for a mode
/// of a key that does not exist or does not allow it.
Normalizer FitNormalizer(const Dataset& dataset, const ShapeMeta& shape_meta,
                         const NormalizerConfig& config);

/// A normalizer to try a policy without data: low_dim values have mean 0, std 1 and range [-1, 1],
/// colours mean and std 0.5.
Normalizer NeutralNormalizer(const ShapeMeta& shape_meta, const NormalizerConfig& config);

}  // namespace dp_bench::train
