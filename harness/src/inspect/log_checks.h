// Checks of the log of a finished or running training: hypothesis E of a training that does not
// learn. Torch-free.
#pragma once

#include "inspect/finding.h"
#include "inspect/log_curves.h"

namespace dp_bench::inspect {

/// All checks of this file.
Findings CheckLog(const LogCurves& curves);

Finding CheckLossIsFinite(const LogCurves& curves);

/// Compares the loss of the last tenth with that of the first steps.
Finding CheckLossFalls(const LogCurves& curves);

/// Compares the loss of the last tenth with the lowest earlier tenth.
Finding CheckLossStays(const LogCurves& curves);

/// The loss no longer changes over the last third of the log or more. Only a note, because that is
/// how a good training ends.
Finding CheckPlateau(const LogCurves& curves);

/// Steps whose loss is far above its surroundings, after the first tenth of the log. A note.
Finding CheckSpikes(const LogCurves& curves);

/// A validation loss that rises while the training loss falls. Only a note, because the success
/// rate of diffusion policies often rises anyway.
Finding CheckOverfitting(const LogCurves& curves);

}  // namespace dp_bench::inspect
