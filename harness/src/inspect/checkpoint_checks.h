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

namespace dp_bench::inspect {

/// Parameters that are not finite, all 0, or exploded.
Finding CheckWeights(const torch::nn::Module& module);

/// The averaged weights are worse than the weights that they average.
Finding CheckAveragedWeights(Policy& ema, Policy& model, const Probe& probe);

/// The network predicts no better than a constant.
Finding CheckIsTrained(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// The network predicts something other than the config says: noise, x_0 or velocity.
Finding CheckPredictionType(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// One denoising step of all rows.
struct SamplingStep {
  double largest = 0.0;        // |x_t|
  double std = 0.0;            // of x_t
  double largest_x_0 = 0.0;    // of the predicted x_0, after clipping
  double clipped_share = 0.0;  // share of its values that were clipped; 0 without clip_sample
};

/// Sampled action chunks for a batch, compared with the recorded ones in normalized units.
struct SamplingSample {
  std::vector<SamplingStep> steps;    // empty if the policy reports none
  std::vector<double> error_by_step;  // [Ta], mean square
  double error = 0.0;                 // their mean
  double error_of_mean_action = 0.0;  // with the best constant instead
  bool is_finite = true;
};

/// With `is_permuted`, each row gets the observations of the next row.
SamplingSample RecordSampling(Policy& policy, const Normalizer& normalizer, const Probe& probe,
                              bool is_permuted = false);

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
