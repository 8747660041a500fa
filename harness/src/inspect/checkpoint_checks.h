// Checks of a trained policy: its weights, the network's predictions and the sampled actions.
// Includes LibTorch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dp_bench/noise_scheduler.h"
#include "dp_bench/normalizer.h"
#include "inspect/finding.h"
#include "inspect/probe.h"
#include "train/sampling_trace.h"

namespace dp_bench::inspect {

/// Parameters that are not finite, all 0, or exploded.
Finding CheckWeights(const torch::nn::Module& module);

/// The averaged weights are worse than the weights that they average.
Finding CheckAveragedWeights(Policy& ema, Policy& model, const Probe& probe);

/// The network predicts no better than a constant.
Finding CheckIsTrained(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// The network predicts something other than the config says: noise, x_0 or velocity.
Finding CheckPredictionType(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// Sampled action chunks for a batch, compared with the recorded ones in normalized units.
struct SamplingSample {
  std::vector<train::SamplingStep> steps;  // empty if the policy reports none
  std::vector<double> error_by_step;       // [Ta], mean square
  double error = 0.0;                      // their mean
  double error_of_mean_action = 0.0;       // with the best constant instead
  torch::Tensor recorded;                  // [B, Ta, Da], normalized
  bool is_finite = true;
};

/// With `is_permuted`, each row gets the observations of the next row.
SamplingSample RecordSampling(Policy& policy, const Normalizer& normalizer, const Probe& probe,
                              bool is_permuted = false);

/// Sampling leaves the range of the data. `is_finite`: of the sampled actions.
Finding CheckDivergence(const std::vector<train::SamplingStep>& steps, bool is_finite,
                        const std::optional<NoiseSchedulerConfig>& scheduler);

/// What limits the predicted x_0 during sampling.
struct ClippingCase {
  const std::vector<train::SamplingStep>& steps;
  const std::optional<NoiseSchedulerConfig>& scheduler;
  const Normalizer& normalizer;
  torch::Tensor recorded = {};  // normalized actions; undefined: none are known
};

/// Too many predicted values are clipped, and: hardly any are, because the range is too wide.
Findings CheckClipping(const ClippingCase& clipping);

/// Sampled actions are no better than the mean action.
Finding CheckActionError(const SamplingSample& sample);

/// The policy of the checkpoint with some config values changed ("a.b=c").
using MakeVariant =
    std::function<std::unique_ptr<Policy>(const std::vector<std::string>& overrides)>;

/// The inputs of the sampling checks.
struct SamplingCase {
  Policy& policy;
  const Normalizer& normalizer;
  const Probe& probe;
  std::optional<NoiseSchedulerConfig> scheduler;
  MakeVariant make_variant;
};

/// Checks for values that blow up during sampling, too few steps, and actions that ignore the
/// observations or are no better than the mean action. Includes a trace of the denoising steps.
Findings CheckSampling(const SamplingCase& sampling);

}  // namespace dp_bench::inspect
