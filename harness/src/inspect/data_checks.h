// Faults of demonstrations that the numbers alone reveal. Torch-free.
#pragma once

#include "data/split.h"
#include "dp_bench/spec.h"
#include "inspect/demonstrations.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// The checks of this file that need only low-dimensional keys.
Findings CheckData(const Demonstrations& data, const Horizons& horizons, const data::Split& split);

/// NaN or Inf, with key, episode and step of the first.
Finding CheckFinite(const Demonstrations& data);

/// Actions that never change in any dimension. If only some dimensions never change, a note.
Finding CheckActionsChange(const Demonstrations& data);

/// Steps that repeat the previous one, observation and action.
Finding CheckIdleSteps(const Demonstrations& data);

/// Values outside of the range that the files state, or a range that they do not fill: statistics
/// of other data. Open if the format has none.
Finding CheckRecordedRanges(const Dataset& dataset, const Demonstrations& data);

/// Episodes shorter than one sequence, which is then mostly padding.
Finding CheckEpisodeLengths(const Demonstrations& data, const Horizons& horizons);

/// Episodes that occur twice, byte for byte.
Finding CheckDuplicates(const Demonstrations& data);

/// Episodes in both training and validation.
Finding CheckLeakage(const Demonstrations& data, const data::Split& split);

/// Single values so far from the others that they alone determine the range.
Finding CheckOutliers(const Demonstrations& data);

/// Actions of neighbouring steps that differ as much as those of distant steps.
Finding CheckActionOrder(const Demonstrations& data);

/// Actions that belong to another step. Applies to actions that are targets, so that an observed
/// value follows them. Finds the lag at which that value correlates best. Never a fault of data
/// that dp_bench recorded, where a slow env can look like one.
Finding CheckActionLag(const Demonstrations& data, const Horizons& horizons);

/// Cameras whose pictures never change, from `n_frames` of them.
Finding CheckImages(const Dataset& dataset, const ShapeMeta& meta, int n_frames = 64);

}  // namespace dp_bench::inspect
