// What is wrong with a training before it starts: config values that cannot work together, and a
// network that cannot learn from a few updates on one batch with fixed noise. Includes LibTorch.
#pragma once

#include <functional>
#include <memory>

#include "diagnose/finding.h"
#include "diagnose/probe.h"
#include "dp_bench/config.h"
#include "dp_bench/policy.h"
#include "train/optimizer.h"

namespace dp_bench::diagnose {

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

}  // namespace dp_bench::diagnose
