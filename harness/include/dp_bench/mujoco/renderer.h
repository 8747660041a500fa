// Images of a MuJoCo simulation, colour and depth from one draw, without a display; and its
// cameras. Link dp_bench::mujoco.
#pragma once

#include <mujoco/mujoco.h>

#include <cstdint>
#include <memory>
#include <span>

#include "dp_bench/env.h"
#include "dp_bench/export.h"

namespace dp_bench::mujoco {

/// The drawing quality of images.
struct RenderSettings {
  int shadow_size = 1024;  // side of the shadow map [px]; 0 draws no shadows
  int samples = 0;         // multisamples per pixel; 0 or 1 is none
  int slices = 16;         // faces around a sphere or cylinder
  bool operator==(const RenderSettings&) const = default;
};

/// For images that people look at. They take several times as long as the default, which is for
/// policies.
inline constexpr RenderSettings kSmooth = {.shadow_size = 2048, .samples = 4, .slices = 32};

/// Depth [mm] is clamped to this range. A ray that hits nothing within 0.69 of the model's zfar
/// meets the sky, and its depth is `max_mm`.
struct DepthRange {
  std::uint16_t min_mm = 0;
  std::uint16_t max_mm = 65535;
};

/// A rectangle of a frame [px], from the top left; `right` and `bottom` are the first column and
/// row outside.
struct Tile {
  int left;
  int top;
  int right;
  int bottom;
};

/// Draws with the OpenGL context of the calling thread, so it may move between threads like the env
/// that owns it. On one machine the pixels depend only on the model, the state and the image
/// size, not on the thread or on earlier images.
///
/// `camera` is an id of the model, `data` has passed mj_fwdPosition. Drawing throws Error{kEnv} if
/// the machine cannot render: it tries EGL, then OSMesa. $MUJOCO_GL (egl or osmesa) restricts the
/// choice, and $MUJOCO_EGL_DEVICE_ID selects a GPU.
class DPB_API Renderer {
 public:
  /// `model`: the model of every later call, or one with the same shapes and textures. Does not use
  /// OpenGL.
  explicit Renderer(const mjModel& model, const RenderSettings& settings = {},
                    DepthRange range = {});
  Renderer(Renderer&&) noexcept;
  Renderer& operator=(Renderer&&) noexcept;
  ~Renderer();

  /// `rgb`: [height, width, 3], rows from the top.
  void RenderRgb(const mjModel& model, const mjData& data, int camera, int width, int height,
                 std::span<std::uint8_t> rgb);

  /// `depth_mm`: [height, width], rows from the top; the distance along the optical axis (z of the
  /// camera), not along the ray, rounded to millimetres.
  void RenderRgbd(const mjModel& model, const mjData& data, int camera, int width, int height,
                  std::span<std::uint8_t> rgb, std::span<std::uint16_t> depth_mm);

  /// Fills one tile of the frame; the rest does not change.
  void RenderTile(const mjModel& model, const mjData& data, int camera, const Tile& tile,
                  RgbImage* frame);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// The parameters of a perspective camera, for the images that Renderer draws at this size;
/// `data` as required there. Throws Error{kEnv} for an orthographic camera.
DPB_API CameraParameters ParametersOf(const mjModel& model, const mjData& data, int camera,
                                      int width, int height);

}  // namespace dp_bench::mujoco
