// The diffusion process as seen in instrumented losses: hypotheses B, C, D and F of a training that
// does not learn. Includes LibTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/probe.h"
#include "policy/noise_scheduler.h"

namespace dp_bench::diagnose {

/// Timesteps, forward process, prediction and constants of one sample; left open if the policy has
/// no noise scheduler or reports no stages. The predicted x_0 is judged only if the policy
/// `is_trained`.
Findings CheckProcess(const ProcessSample& sample,
                      const std::optional<NoiseSchedulerConfig>& scheduler, bool is_trained);

/// D: in the precision of the training, the output is not finite or the loss is another one.
/// Both samples are of the same batch.
Finding CheckPrecision(const ProcessSample& lower, const ProcessSample& full,
                       train::MixedPrecision precision);

/// "float32", or "products in bfloat16, output in float32" with mixed precision.
std::string PrecisionInWords(const ProcessSample& sample, train::MixedPrecision precision);

/// Mean square error of the prediction in each of `n_bins` equal ranges of the timesteps; NaN
/// without a row.
std::vector<double> ErrorsByTimestep(const ProcessSample& sample, const NoiseScheduler& scheduler,
                                     int n_bins);

/// The number of timesteps in each of `n_bins` equal ranges.
std::vector<std::int64_t> CountsByTimestep(const torch::Tensor& timesteps, int num_train_timesteps,
                                           int n_bins);

}  // namespace dp_bench::diagnose
