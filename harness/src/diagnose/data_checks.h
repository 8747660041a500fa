// Faults of demonstrations that the numbers alone reveal. Torch-free.
#pragma once

#include "data/split.h"
#include "diagnose/demonstrations.h"
#include "diagnose/finding.h"
#include "dp_bench/spec.h"

namespace dp_bench::diagnose {

/// The checks that need only low-dimensional keys: NaN or Inf; actions that never change, are out
/// of order or belong to another step; idle steps, short and duplicate episodes, outliers. With a
/// `split` also validation episodes in the training data. NaN or Inf alone, if there are any.
Findings CheckData(const Demonstrations& data, const Horizons& horizons,
                   const data::Split* split = nullptr);

/// Values outside of the range that the files state, or a range that they do not fill: statistics
/// of other data. Open if the format has none.
Finding CheckRecordedRanges(const Dataset& dataset, const Demonstrations& data);

/// Cameras whose images never change, from `n_frames` of them.
Finding CheckImages(const Dataset& dataset, const ShapeMeta& meta, int n_frames = 64);

}  // namespace dp_bench::diagnose
