// Values of a config that cannot work together, known before anything is trained. Includes
// LibTorch.
#pragma once

#include "dp_bench/config.h"
#include "dp_bench/policy.h"
#include "inspect/finding.h"
#include "train/ema.h"

namespace dp_bench::inspect {

/// How long the training is.
struct TrainingLength {
  std::int64_t n_sequences = 0;  // training samples
  std::int64_t batch_size = 0;
  std::int64_t n_updates = 0;  // of the whole run
};

/// Reads training, dataloader and how many sequences there are.
TrainingLength LengthOf(const Config& config, std::int64_t n_sequences);

/// All checks of this file. `policy`: newly made from the config.
Findings CheckSettings(const Config& config, Policy& policy, const TrainingLength& length);

/// The learning rate is still warming up when the training ends.
Finding CheckWarmup(const Config& config, const TrainingLength& length);

/// How much of the averaged weights is older than the last nine tenths of the training.
Finding CheckEma(const train::EmaConfig& config, std::int64_t n_updates);

/// Fewer sequences than one batch has rows.
Finding CheckBatchSize(const TrainingLength& length);

/// Batch norms, whose statistics are noisy in small batches and lag behind averaged weights.
Finding CheckBatchNorm(const torch::nn::Module& module, std::int64_t batch_size);

/// Parts that are frozen with the random weights they began with.
Finding CheckFrozen(const Config& config, Policy& policy);

}  // namespace dp_bench::inspect
