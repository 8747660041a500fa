// Checks of a trained policy: its weights, the network's predictions and the sampled actions.
// Includes LibTorch.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/finding.h"
#include "diagnose/probe.h"
#include "dp_bench/normalizer.h"
#include "policy/noise_scheduler.h"
#include "train/process_stages.h"

namespace dp_bench::diagnose {

/// Parameters that are not finite, all 0, or exploded.
Finding CheckWeights(const torch::nn::Module& module);

/// The averaged weights are worse than the weights that they average.
Finding CheckAveragedWeights(Policy& ema, Policy& model, const Probe& probe);

/// The network predicts no better than a constant, or something other than the config says: noise,
/// x_0 or velocity.
Findings CheckTrainedFor(const ProcessSample& sample, const NoiseScheduler& scheduler);

/// The error of sampled chunks against the recorded ones, mean square in normalized units.
struct ChunkError {
  double mean = 0.0;
  double of_mean_action = 0.0;  // with the best constant instead
  std::vector<double> by_step;  // [Ta]
};

/// What one sampling gives for a batch of observations.
struct SamplingSample {
  std::int64_t n_chunks = 0;
  std::vector<train::SamplingStep> steps;  // empty if the policy reports none
  torch::Tensor recorded;                  // [B, Ta, Da], normalized actions; undefined: unknown
  std::optional<ChunkError> error;         // if they are known
  bool is_finite = true;                   // the sampled actions
};

/// With `is_permuted`, each row gets the observations of the next row.
SamplingSample RecordSampling(Policy& policy, const Normalizer& normalizer, const Probe& probe,
                              bool is_permuted = false);

/// Sampling leaves the range of the data; sampled actions are no better than the mean action, if
/// the recorded ones are known; with clip_sample: too many predicted values are clipped, or hardly
/// any, because the range is too wide.
Findings CheckSample(const SamplingSample& sample, const Normalizer& normalizer,
                     const std::optional<NoiseSchedulerConfig>& scheduler);

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

/// CheckSample, and: actions that ignore the observations, too few steps, a better sampler.
Findings CheckSampling(const SamplingCase& sampling);

}  // namespace dp_bench::diagnose
