// Where a camera of the simulation is and how it projects.
#pragma once

#include <dp_bench/env_abilities.h>
#include <mujoco/mujoco.h>

namespace dp_bench::kuavo_dualarm {

/// Of a perspective camera, for the pictures that MujocoRenderer draws at this size; `data` as
/// expected there. Throws Error{kEnv} for an orthographic camera.
CameraParameters ParametersOf(const mjModel& model, const mjData& data, int camera, int width,
                              int height);

}  // namespace dp_bench::kuavo_dualarm
