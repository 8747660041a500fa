// How much of the goal the block covers: the overlap of two equal T shapes.
#pragma once

#include "pusht_world.h"

namespace dp_bench::pusht {

/// Intersection area of the block at `block` and the goal, divided by the goal's area, in [0, 1].
double Coverage(const Pose& block);

}  // namespace dp_bench::pusht
