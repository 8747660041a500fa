// A normalizer that does not fit its data, or the diffusion process that follows it. Includes
// LibTorch.
#pragma once

#include <optional>

#include "dp_bench/noise_scheduler.h"
#include "dp_bench/normalizer.h"
#include "inspect/demonstrations.h"
#include "inspect/finding.h"

namespace dp_bench::inspect {

/// All checks of this file. `scheduler`: of the policy, where it has one.
Findings CheckNormalizer(const Normalizer& normalizer, const Demonstrations& data,
                         const std::optional<NoiseSchedulerConfig>& scheduler);

/// Statistics of a checkpoint that are not those of the data.
Finding CheckStatistics(const Normalizer& normalizer, const Demonstrations& data);

/// Normalized actions beyond what sampling can reach because predicted x_0 is clipped.
Finding CheckClipRange(const Normalizer& normalizer, const Demonstrations& data,
                       const std::optional<NoiseSchedulerConfig>& scheduler);

/// Hypothesis A of a training that does not learn: x_0 has the wrong scale.
Finding CheckScale(const Normalizer& normalizer, const Demonstrations& data);

}  // namespace dp_bench::inspect
