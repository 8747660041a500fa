// A normalizer that does not fit its data or the diffusion process. Includes LibTorch.
#pragma once

#include <optional>

#include "dp_bench/noise_scheduler.h"
#include "dp_bench/normalizer.h"
#include "inspect/demonstrations.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// All checks of this file. `scheduler`: the policy's, if it has one.
Findings CheckNormalizer(const Normalizer& normalizer, const Demonstrations& data,
                         const std::optional<NoiseSchedulerConfig>& scheduler);

/// Statistics of a checkpoint that differ from those of the data.
Finding CheckStatistics(const Normalizer& normalizer, const Demonstrations& data);

/// Normalized actions that sampling cannot reach because the predicted x_0 is clipped.
Finding CheckClipRange(const Normalizer& normalizer, const Demonstrations& data,
                       const std::optional<NoiseSchedulerConfig>& scheduler);

/// The same by the data that the normalizer was fitted to. A note, because a few outliers of the
/// data are enough.
Finding CheckFittedClipRange(const Normalizer& normalizer, const NoiseSchedulerConfig& scheduler);

/// Hypothesis A of a training that does not learn: x_0 has the wrong scale.
Finding CheckScale(const Normalizer& normalizer, const Demonstrations& data);

}  // namespace dp_bench::inspect
