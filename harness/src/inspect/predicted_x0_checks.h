// The predicted x_0 beside the recorded one: the evidence for hypothesis D. Torch-free.
#pragma once

#include "inspect/finding.h"
#include "inspect/log_curves.h"

namespace dp_bench::inspect {

/// D: the x_0 that a trained network predicts is not finite, too narrow, too wide, or shifted.
Finding CheckPredictedX0(const ValueRange& predicted, const ValueRange& x_0);

/// D: the same at the end of the log, or the predicted x_0 drifts: it had the spread of x_0 earlier
/// in the training and lost it. Compares the first tenth of the logged steps with the last.
Finding CheckPredictedX0Course(const LogCurves& curves);

}  // namespace dp_bench::inspect
