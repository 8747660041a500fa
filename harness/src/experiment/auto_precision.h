// training.mixed_precision=auto: bfloat16 where the device multiplies it fast.
#pragma once

#include "core/communicator.h"
#include "experiment/experiment.h"

namespace dp_bench::experiment {

/// If the config has training.mixed_precision=auto, replaces it in the options by bf16 or no, so
/// that the run's config.json says which it was. bf16 needs fast bfloat16 products on the devices
/// of all ranks (core::HasFastBfloat16).
void ResolveAutoPrecision(ExperimentOptions* options, core::Communicator& ranks);

}  // namespace dp_bench::experiment
