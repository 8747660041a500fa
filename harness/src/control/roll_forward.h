// State roll-forward in execution: a plan is made for the moment in which it will be there. Which
// actions are executed until then is known. See data/roll_forward.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "control/chunk_planner.h"
#include "data/roll_forward.h"
#include "dp_bench/config.h"
#include "dp_bench/spec.h"

namespace dp_bench::control {

using data::FollowedActions;

/// Reads {"agent_pos": [0, 1], ...}.
FollowedActions ReadFollowedActions(const Config& section);

/// Throws Error{kConfig} unless each key is a low_dim float32 key of `shape_meta` with as many
/// elements, and each action exists. Nothing to follow is an error too.
void RequireFits(const FollowedActions& followed, const ShapeMeta& shape_meta);

/// Replaces elements of row `place` of `obs`, [M, To, D] of each key. The window of step t becomes
/// that of t + row.delay: its last frames are the actions in execution, the others are moved.
void RollForward(const FollowedActions& followed, const PlanRow& row, std::int64_t action_dim,
                 std::size_t place, ObsBatch* obs);

}  // namespace dp_bench::control
