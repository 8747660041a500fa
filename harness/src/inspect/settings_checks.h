// Config values that cannot work together, found before any training. Includes LibTorch.
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

/// Reads the sections training and dataloader, and the number of sequences.
TrainingLength LengthOf(const Config& config, std::int64_t n_sequences);

/// All checks of this file. `policy`: newly created from the config.
Findings CheckSettings(const Config& config, Policy& policy, const TrainingLength& length);

/// The learning rate is still warming up when the training ends.
Finding CheckWarmup(const Config& config, const TrainingLength& length);

/// How much of the averaged weights comes from the first tenth of the training.
Finding CheckEma(const train::EmaConfig& config, std::int64_t n_updates);

/// Fewer sequences than one batch has rows.
Finding CheckBatchSize(const TrainingLength& length);

/// Batch norms, whose statistics are noisy in small batches and lag behind averaged weights.
Finding CheckBatchNorm(const torch::nn::Module& module, std::int64_t batch_size);

/// Parts that are frozen with their random initial weights.
Finding CheckFrozen(const Config& config, Policy& policy);

}  // namespace dp_bench::inspect
