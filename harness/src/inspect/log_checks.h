// Checks of the log of a finished or running training: hypothesis E of a training that does not
// learn. Torch-free.
#pragma once

#include <filesystem>
#include <vector>

#include "inspect/finding.h"

namespace dp_bench::inspect {

/// The columns of logs.json.txt that the checks read; val_loss only for steps that measured it.
struct LossCurve {
  std::vector<double> train_loss;
  std::vector<double> val_loss;
};

/// Skips lines that are not JSON (a crash may cut the last one). Throws Error{kIo}.
LossCurve ReadLossCurve(const std::filesystem::path& log);

/// All checks of this file.
Findings CheckLog(const LossCurve& curve);

Finding CheckLossIsFinite(const LossCurve& curve);

/// Compares the loss of the last tenth with that of the first steps.
Finding CheckLossFalls(const LossCurve& curve);

/// Compares the loss of the last tenth with the lowest earlier tenth.
Finding CheckLossStays(const LossCurve& curve);

/// A validation loss that rises while the training loss falls. Only a note, because the success
/// rate of diffusion policies often rises anyway.
Finding CheckOverfitting(const LossCurve& curve);

}  // namespace dp_bench::inspect
