// The pose and projection of a camera of the simulation.
#pragma once

#include <mujoco/mujoco.h>

#include "dp_bench/env_abilities.h"

namespace dp_bench::kuavo_dualarm {

/// The parameters of a perspective camera, for the pictures that MujocoRenderer draws at this size;
/// `data` as required there. Throws Error{kEnv} for an orthographic camera.
CameraParameters ParametersOf(const mjModel& model, const mjData& data, int camera, int width,
                              int height);

}  // namespace dp_bench::kuavo_dualarm
