// The diffusion process as seen in instrumented losses: hypotheses B, C, D and F of a training that
// does not learn. Includes LibTorch.
#pragma once

#include <optional>

#include "dp_bench/noise_scheduler.h"
#include "inspect/finding.h"
#include "inspect/probe.h"

namespace dp_bench::inspect {

/// All checks of this file; left open if the policy has no noise scheduler or reports no stages.
Findings CheckProcess(const ProcessSample& sample,
                      const std::optional<NoiseSchedulerConfig>& scheduler);

/// B: the timesteps are not uniform (Pearson's chi-square over ten bins).
Finding CheckTimesteps(const torch::Tensor& timesteps, int num_train_timesteps);

/// C: the noise is not N(0, 1), or x_t does not follow from it and x_0 (DDPM eq. 4).
Finding CheckForwardProcess(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// D: the network's output is not finite, constant, or of another scale than its target.
Finding CheckPrediction(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// F: constants that differ from the closed form.
Finding CheckConstants(const NoiseScheduler& scheduler);

/// Training ends at less noise than sampling starts from (Lin et al. 2024, "Common diffusion noise
/// schedules and sample steps are flawed").
Finding CheckTerminalNoise(const NoiseScheduler& scheduler);

}  // namespace dp_bench::inspect
