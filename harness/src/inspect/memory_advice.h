// What makes a training step smaller, in the order in which to try it: first what changes no
// result, last what makes the policy see or know less.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiment/experiment.h"
#include "inspect/advice.h"

namespace dp_bench::inspect {

/// Half the batch with accumulated gradients, bfloat16, gradient checkpointing, pictures of half
/// the size, one camera less, half the encoder's channels. Each is one change of the experiment's
/// config, with the memory that it saves: two small steps are measured on the CPU for it, larger
/// ones estimated. Leaves out what is already so, does not apply, or saves nothing.
std::vector<Advice> AdviseMemory(const experiment::Experiment& experiment);

/// "  key=value: reason" lines.
std::string AdviceLines(const std::vector<Advice>& advice);

}  // namespace dp_bench::inspect
