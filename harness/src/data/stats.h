// Statistics of one key over all steps of a dataset, to which a normalizer is fitted.
#pragma once

#include <cstdint>

#include "dp_bench/dataset.h"
#include "dp_bench/stats.h"

namespace dp_bench::data {

/// Throws Error{kNumeric} naming key, episode, step and element of the first NaN or Inf in steps
/// [begin, end) of `dataset.spec().keys[key]`.
void RequireFinite(const Dataset& dataset, int key, std::int64_t begin, std::int64_t end);

/// Reads `dataset.spec().keys[key]` block by block, twice (mean before deviation), accumulating in
/// float64. Throws as RequireFinite does, and Error{kData} for a dataset without steps.
KeyStats ComputeStats(const Dataset& dataset, int key);

/// The same per colour channel of a uint8 image key, over all pixels, as values in [0, 1]. All
/// cores count how often each value occurs, so nothing is rounded before the end. Throws
/// Error{kData} for other keys.
KeyStats ComputeChannelStats(const Dataset& dataset, int key);

}  // namespace dp_bench::data
