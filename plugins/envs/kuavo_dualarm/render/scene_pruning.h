// Less to draw for the same picture.
#pragma once

#include <mujoco/mujoco.h>

namespace dp_bench::kuavo_dualarm {

/// Prepares the scene that mjv_updateScene made for a camera, for a picture of this shape. Drops
/// geoms of which neither the surface nor a shadow can be in sight, lets planes cast no shadow
/// (they are the ground), and puts near geoms first, so that pixels of what they hide are not
/// shaded.
void PruneScene(int width, int height, mjvScene* scene);

}  // namespace dp_bench::kuavo_dualarm
