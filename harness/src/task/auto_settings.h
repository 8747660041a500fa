// Settings of a training that the machine decides: training.mixed_precision=auto and
// training.auto_batch.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/communicator.h"
#include "task/experiment.h"

namespace dp_bench::task {

/// Replaces these settings in the options by what the machine decides, on which all ranks agree. So
/// the run's config.json says what it was.
///
/// training.mixed_precision=auto becomes bf16 where the devices of all ranks multiply bfloat16 fast
/// (policy::HasFastBfloat16), else no.
///
/// For training.auto_batch, single training steps on random numbers are tried. It becomes
/// dataloader.batch_size and training.gradient_accumulate_every, whose product stays.
/// (training.max_train_steps, which counts batches, grows likewise.) A device other than the CPU is
/// filled until it refuses. On the CPU, a step is tried only if its estimate leaves a fifth of the
/// free memory, for the dataset and for rollouts. Throws core::OutOfMemory if not even one sample
/// fits.
void ResolveAutoSettings(ExperimentOptions* options, core::Communicator& ranks);

/// The largest divisor of `batch_size` for which `fits` is true; none if it never is. Asks at most
/// 16 times, from the largest divisor down.
std::optional<std::int64_t> LargestFittingBatch(std::int64_t batch_size,
                                                const std::function<bool(std::int64_t)>& fits);

}  // namespace dp_bench::task
