// training.auto_batch: the largest batch whose training step fits into memory.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/communicator.h"
#include "experiment/experiment.h"

namespace dp_bench::experiment {

/// The largest divisor of `batch_size` for which `fits` is true; none if it never is. Asks at most
/// 16 times, from the largest divisor down.
std::optional<std::int64_t> LargestFittingBatch(std::int64_t batch_size,
                                                const std::function<bool(std::int64_t)>& fits);

/// If the config has training.auto_batch, tries single training steps on random numbers, and
/// replaces it in the options by dataloader.batch_size and training.gradient_accumulate_every,
/// whose product stays. (training.max_train_steps, which counts batches, grows likewise.) A device
/// other than the CPU is filled until it refuses. On the CPU, a step is tried only if its estimate
/// leaves a fifth of the free memory, for the dataset and for rollouts. All ranks agree on the
/// smallest answer. Throws core::OutOfMemory if not even one sample fits.
void ResolveAutoBatch(ExperimentOptions* options, core::Communicator& ranks);

}  // namespace dp_bench::experiment
