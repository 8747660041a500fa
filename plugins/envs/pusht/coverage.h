// How much of the goal the block covers: the area that two equal T shapes share.
#pragma once

#include "pusht_world.h"

namespace dp_bench::pusht {

/// Intersection area of the block at `block` and the goal, divided by the goal's area, in [0, 1].
double Coverage(const Pose& block);

}  // namespace dp_bench::pusht
