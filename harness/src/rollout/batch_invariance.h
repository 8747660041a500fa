// Does a row of the policy's batch depend on its companions? The outcome of an episode may not, and
// the low bits of a matrix product often do: shown here on real observations, before anything
// counts.
#pragma once

#include <span>

#include "rollout/chunk_planner.h"

namespace dp_bench {

/// Plans `obs` again with its rows in reverse order, and again with every second row replaced.
/// Throws Error{kNumeric} when a row's actions are not the same bits as in `actions`, the result of
/// planner.Plan(obs, rows, ...).
void CheckBatchInvariance(ChunkPlanner& planner, const ObsBatch& obs, std::span<const PlanRow> rows,
                          std::span<const float> actions);

}  // namespace dp_bench
