#include "dp_bench/mujoco/camera.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "dp_bench/error.h"

namespace dp_bench::mujoco {

CameraParameters ParametersOf(const mjModel& model, const mjData& data, int camera, int width,
                              int height) {
  DPB_ASSERT(camera >= 0 && camera < model.ncam && width > 0 && height > 0);
  CameraParameters parameters;
  parameters.name = model.names + model.name_camadr[camera];
  if (model.cam_projection[camera] != mjPROJ_PERSPECTIVE) {
    throw Error(ErrorCode::kEnv,
                fmt::format("camera '{}' is orthographic, but camera parameters are those of a "
                            "perspective camera",
                            parameters.name));
  }

  // the frustum at the near plane: its extent below and above, left and right of the axis
  mjvCamera view;
  mjv_defaultCamera(&view);
  view.type = mjCAMERA_FIXED;
  view.fixedcamid = camera;
  std::array<float, 2> vertical = {};
  std::array<float, 2> horizontal = {};  // zeros: follow from the shape of the image
  std::array<float, 2> clip = {};
  mjv_cameraFrustum(vertical.data(), horizontal.data(), clip.data(), &model, &view);
  const double near = clip[0];
  const double tall = static_cast<double>(vertical[0]) + vertical[1];
  const double wide = static_cast<double>(horizontal[0]) + horizontal[1];
  parameters.fy = height * near / tall;
  parameters.cy = height * double{vertical[1]} / tall;
  parameters.fx = wide > 0.0 ? width * near / wide : parameters.fy;
  parameters.cx = wide > 0.0 ? width * double{horizontal[0]} / wide : 0.5 * width;

  // MuJoCo's camera looks along -z with y up, ours along z with y down
  const mjtNum* const axes = data.cam_xmat + 9 * camera;
  const mjtNum* const position = data.cam_xpos + 3 * camera;
  for (std::size_t row = 0; row < 3; ++row) {
    double* const out = parameters.camera_to_world.data() + 4 * row;
    out[0] = axes[3 * row];
    out[1] = -axes[3 * row + 1];
    out[2] = -axes[3 * row + 2];
    out[3] = position[row];
  }
  parameters.camera_to_world[15] = 1.0;
  return parameters;
}

}  // namespace dp_bench::mujoco
