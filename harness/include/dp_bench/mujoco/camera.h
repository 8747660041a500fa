// The pose and projection of a camera of the simulation. Link dp_bench::mujoco.
#pragma once

#include <mujoco/mujoco.h>

#include "dp_bench/env.h"
#include "dp_bench/export.h"

namespace dp_bench::mujoco {

/// The parameters of a perspective camera, for the images that Renderer draws at this size;
/// `data` as required there. Throws Error{kEnv} for an orthographic camera.
DPB_API CameraParameters ParametersOf(const mjModel& model, const mjData& data, int camera,
                                      int width, int height);

}  // namespace dp_bench::mujoco
