// State roll-forward (VLASH, arXiv 2512.01031): a plan is made for the moment in which it will be
// there. The robot's own state is replaced by where the actions that are executed until then lead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "control/chunk_planner.h"
#include "dp_bench/config.h"
#include "dp_bench/spec.h"

namespace dp_bench::control {

/// For an observation key, the element of the action that its elements follow; -1: none, the
/// element stays as observed. For robots under position control, whose actions are targets of
/// these elements.
using FollowedActions = std::map<std::string, std::vector<int>>;

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
