// What the log of a finished or running training tells: hypothesis E of a training that does not
// learn. Torch-free.
#pragma once

#include <filesystem>
#include <vector>

#include "inspect/finding.h"

namespace dp_bench::inspect {

/// The columns of logs.json.txt that the checks look at; val_loss only where it was measured.
struct LossCurve {
  std::vector<double> train_loss;
  std::vector<double> val_loss;
};

/// Lines that are no JSON are left out (a crash may cut the last one). Throws Error{kIo}.
LossCurve ReadLossCurve(const std::filesystem::path& log);

/// All checks of this file.
Findings CheckLog(const LossCurve& curve);

Finding CheckLossIsFinite(const LossCurve& curve);

/// The loss of the last tenth against that of the first steps.
Finding CheckLossFalls(const LossCurve& curve);

/// The loss of the last tenth against the lowest tenth before it.
Finding CheckLossStays(const LossCurve& curve);

/// A validation loss that rises while the training loss falls; a note, because the success rate of
/// diffusion policies often rises all the same.
Finding CheckOverfitting(const LossCurve& curve);

}  // namespace dp_bench::inspect
