// The diffusion process as seen in instrumented losses: hypotheses B, C, D and F of a training that
// does not learn. Includes LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/noise_scheduler.h"
#include "inspect/finding.h"
#include "inspect/probe.h"

namespace dp_bench::inspect {

/// All checks of one sample; left open if the policy has no noise scheduler or reports no stages.
/// The predicted x_0 is judged only if the policy `is_trained`.
Findings CheckProcess(const ProcessSample& sample,
                      const std::optional<NoiseSchedulerConfig>& scheduler, bool is_trained);

/// B: the timesteps are not uniform (Pearson's chi-square over ten bins).
Finding CheckTimesteps(const torch::Tensor& timesteps, int num_train_timesteps);

/// C: the noise is not N(0, 1), or x_t does not follow from it and x_0 (DDPM eq. 4) with the tables
/// that the policy noted; the config's, if it noted none.
Finding CheckForwardProcess(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// D: the network's output is not finite, constant, or of another scale than its target.
Finding CheckPrediction(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// D: in the precision of the training, the output is not finite or the loss is another one.
/// Both samples are of the same batch.
Finding CheckPrecision(const ProcessSample& lower, const ProcessSample& full,
                       train::MixedPrecision precision);

/// "float32", or "products in bfloat16, output in float32" with mixed precision.
std::string PrecisionInWords(const ProcessSample& sample, train::MixedPrecision precision);

/// F: the tables that the policy noted differ from those of the noise scheduler of its config.
Finding CheckConstants(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// Mean square error of the prediction in each of `n_bins` equal ranges of the timesteps; NaN
/// without a row.
std::vector<double> ErrorsByTimestep(const ProcessSample& sample, const NoiseScheduler& scheduler,
                                     int n_bins);

/// The number of timesteps in each of `n_bins` equal ranges.
std::vector<std::int64_t> CountsByTimestep(const torch::Tensor& timesteps, int num_train_timesteps,
                                           int n_bins);

/// Training ends at less noise than sampling starts from (Lin et al. 2024, "Common diffusion noise
/// schedules and sample steps are flawed").
Finding CheckTerminalNoise(const NoiseScheduler& scheduler);

}  // namespace dp_bench::inspect
