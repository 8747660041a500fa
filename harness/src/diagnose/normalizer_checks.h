// A normalizer that does not fit its data or the diffusion process. Includes LibTorch.
#pragma once

#include <optional>

#include "diagnose/demonstrations.h"
#include "diagnose/finding.h"
#include "dp_bench/normalizer.h"
#include "policy/noise_scheduler.h"

namespace dp_bench::diagnose {

/// Statistics of a checkpoint that differ from those of the data; normalized actions that sampling
/// cannot reach because the predicted x_0 is clipped; and hypothesis A of a training that does not
/// learn: x_0 has the wrong scale. `scheduler`: the policy's, if it has one.
Findings CheckNormalizer(const Normalizer& normalizer, const Demonstrations& data,
                         const std::optional<NoiseSchedulerConfig>& scheduler);

/// Actions beyond the clip range, by the data that the normalizer was fitted to. A note, because a
/// few outliers of the data are enough.
Finding CheckFittedClipRange(const Normalizer& normalizer, const NoiseSchedulerConfig& scheduler);

}  // namespace dp_bench::diagnose
