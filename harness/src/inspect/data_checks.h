// Faults of demonstrations that show in the numbers alone. Torch-free.
#pragma once

#include "data/split.h"
#include "dp_bench/spec.h"
#include "inspect/demonstrations.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// The checks of this file that low-dimensional keys are enough for.
Findings CheckData(const Demonstrations& data, const Horizons& horizons, const data::Split& split);

/// NaN or Inf, with key, episode and step of the first.
Finding CheckFinite(const Demonstrations& data);

/// Actions that never change in any dimension; where only some never do, a note.
Finding CheckActionsChange(const Demonstrations& data);

/// Steps that repeat the one before, observation and action.
Finding CheckIdleSteps(const Demonstrations& data);

/// Episodes shorter than one sequence, most of which is padding.
Finding CheckEpisodeLengths(const Demonstrations& data, const Horizons& horizons);

/// Episodes that occur twice, byte for byte.
Finding CheckDuplicates(const Demonstrations& data);

/// The same across training and validation.
Finding CheckLeakage(const Demonstrations& data, const data::Split& split);

/// Single values so far from the others that they alone decide the range.
Finding CheckOutliers(const Demonstrations& data);

/// Actions of neighbouring steps that differ as much as those of any two steps.
Finding CheckActionOrder(const Demonstrations& data);

/// Actions that belong to another step: for actions that say where to be (each follows some
/// observed value), the lag at which that value agrees best.
Finding CheckActionLag(const Demonstrations& data, const Horizons& horizons);

/// Cameras whose pictures never change, over `n_frames` of them.
Finding CheckImages(const Dataset& dataset, const ShapeMeta& meta, int n_frames = 64);

}  // namespace dp_bench::inspect
