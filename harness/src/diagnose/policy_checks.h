// Checks of what is trained: the normalizer, the diffusion process in instrumented losses, the
// settings and first updates of a training, and a trained policy. Each subject has its *_checks.cc.
// Includes LibTorch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "diagnose/data_checks.h"
#include "diagnose/diagnosis_report.h"
#include "diagnose/finding.h"
#include "diagnose/probe.h"
#include "dp_bench/config.h"
#include "dp_bench/normalizer.h"
#include "dp_bench/policy.h"
#include "policy/noise_scheduler.h"
#include "train/optimizer.h"
#include "train/process_stages.h"

namespace dp_bench::diagnose {

// A normalizer that does not fit its data or the diffusion process.

/// Statistics of a checkpoint that differ from those of the data; normalized actions that sampling
/// cannot reach because the predicted x_0 is clipped; and hypothesis A of a training that does not
/// learn: x_0 has the wrong scale. `scheduler`: the policy's, if it has one.
Findings CheckNormalizer(const Normalizer& normalizer, const Demonstrations& data,
                         const std::optional<NoiseSchedulerConfig>& scheduler);

/// Actions beyond the clip range, by the data that the normalizer was fitted to. A note, because a
/// few outliers of the data are enough.
Finding CheckFittedClipRange(const Normalizer& normalizer, const NoiseSchedulerConfig& scheduler);

// The diffusion process: hypotheses B, C, D and F of a training that does not learn.

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

/// What the evidence is made of; parts may be missing.
struct EvidenceSources {
  const ProcessSample* sample = nullptr;
  std::optional<NoiseSchedulerConfig> scheduler = std::nullopt;
  const LogCurves* log = nullptr;
  std::string precision = {};  // of the network in training
};

/// Adds tables, plots, notes and loss statistics.
void AddEvidence(const EvidenceSources& sources, Diagnosis* diagnosis);

// A training before it starts: config values that cannot work together, and a network that cannot
// learn from a few updates on one batch with fixed noise.

/// How long the training is.
struct TrainingLength {
  std::int64_t n_sequences = 0;  // training samples
  std::int64_t batch_size = 0;
  std::int64_t n_updates = 0;  // of the whole run
};

/// Reads the sections training and dataloader, and the number of sequences.
TrainingLength LengthOf(const Config& config, std::int64_t n_sequences);

/// Warm-up, EMA, batch size, batch norms and frozen parts. `policy`: newly created from the config.
Findings CheckSettings(const Config& config, Policy& policy, const TrainingLength& length);

/// Creates a new policy with its normalizer, with the same weights each time.
using MakePolicy = std::function<std::unique_ptr<Policy>()>;

/// Forty updates on one batch at the config's rate and at others: gradients, dead units, and a rate
/// that is too high or too low.
Findings CheckLearning(const MakePolicy& make_policy, const train::OptimizerConfig& optimizer,
                       const Probe& probe);

// A trained policy: its weights, the network's predictions and the sampled actions.

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
