// Checks of the log of a finished or running training, and of the x_0 that a network predicts:
// hypotheses E and D of a training that does not learn. Torch-free.
#pragma once

#include "diagnose/finding.h"
#include "diagnose/log_curves.h"

namespace dp_bench::diagnose {

/// The loss: NaN or Inf, not falling, rising again; a plateau, spikes and overfitting are notes.
/// The predicted x_0 at the end of the log, and whether it drifts: it had the spread of x_0 earlier
/// in the training and lost it.
Findings CheckLog(const LogCurves& curves);

/// D: the x_0 that a trained network predicts is not finite, too narrow, too wide, or shifted.
Finding CheckPredictedX0(const ValueRange& predicted, const ValueRange& x_0);

}  // namespace dp_bench::diagnose
