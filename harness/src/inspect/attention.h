// Where a policy looks: the attention weights of its layers while it plans one action chunk. A
// policy reports them as stages (dp_bench/stage_trace.h) when it samples:
//   "attention: <place>, <rows> to <columns>"  [B, n_head, rows, columns]
//   "condition part: <observation>"            [B, To, D], the parts of the condition in order
//   "transformer: observation embedding"       [d, Do], condition of a step -> condition token
#pragma once

#include <cstdint>

#include "control/chunk_planner.h"
#include "dp_bench/dataset.h"
#include "dp_bench/policy.h"
#include "inspect/attention_maps.h"

namespace dp_bench::inspect {

/// Plans one chunk for `recorded` and collects what the policy attends to. Throws Error{kUsage} if
/// the policy reports no attention.
AttentionInspection InspectAttention(Policy& policy, torch::Device device,
                                     const control::RecordedObs& recorded);

/// The observations of a demonstration up to `step`, with the noise that a rollout of seed 0 has.
/// Throws Error{kUsage} if there is no such step.
control::RecordedObs ObsOfDemonstration(const Dataset& dataset, const PolicySpec& spec,
                                        std::int64_t episode, std::int64_t step);

}  // namespace dp_bench::inspect
