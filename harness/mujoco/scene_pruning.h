// Draws less for the same image.
#pragma once

#include <mujoco/mujoco.h>

namespace dp_bench::mujoco {

/// Prepares the scene from mjv_updateScene for one camera and an image of this shape. Drops geoms
/// whose surface and shadow cannot be visible, disables the shadows of planes (they are the
/// ground), and sorts near geoms first, so that hidden pixels are not shaded.
void PruneScene(int width, int height, mjvScene* scene);

}  // namespace dp_bench::mujoco
