// Pictures of a MuJoCo simulation: colour and depth from one draw, without a display.
#pragma once

#include <dp_bench/env.h>
#include <mujoco/mujoco.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "render/render_context.h"

namespace dp_bench::kuavo_dualarm {

/// Depth [mm] is clipped to this range. Where a ray hits nothing within 0.69 of the model's zfar it
/// meets the sky, and the depth is `max_mm`.
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

/// Draws with whatever OpenGL context the calling thread has, so it may move between threads like
/// the env that owns it. On one machine the pixels are a function of the model, the state and the
/// picture size alone: no thread, and nothing drawn before, can change them.
///
/// All calls leave the simulation as it is, expect positions that are up to date (mj_forward, or
/// mj_kinematics with mj_camlight), and throw Error{kEnv} when the machine cannot render.
class MujocoRenderer {
 public:
  /// `model`: of every later call, or one with the same shapes and textures. Does not touch OpenGL.
  explicit MujocoRenderer(const mjModel& model, RenderSettings settings = {},
                          DepthRange range = {});

  /// `rgb`: [height, width, 3], rows from the top.
  void RenderRgb(const mjModel& model, const mjData& data, int camera, int width, int height,
                 std::span<std::uint8_t> rgb);

  /// `depth_mm`: [height, width], rows from the top; the distance along the optical axis (z of the
  /// camera), not along the ray, rounded to millimetres.
  void RenderRgbd(const mjModel& model, const mjData& data, int camera, int width, int height,
                  std::span<std::uint8_t> rgb, std::span<std::uint16_t> depth_mm);

  /// Fills one tile of the frame; the rest stays as it is.
  void RenderTile(const mjModel& model, const mjData& data, int camera, const Tile& tile,
                  RgbImage* frame);

 private:
  struct SceneDeleter {
    void operator()(mjvScene* scene) const;
  };

  enum class Read { kColour, kColourAndDepth };

  // Into the memory of the returned context.
  RenderContext& Draw(const mjModel& model, const mjData& data, int camera, int width, int height,
                      Read read);
  void DrawRgb(const mjModel& model, const mjData& data, int camera, int width, int height,
               std::size_t stride, std::uint8_t* rgb);  // rows `stride` bytes apart

  std::uint64_t asset_key_;
  RenderSettings settings_;
  DepthRange range_;
  mjvOption option_;
  std::unique_ptr<mjvScene, SceneDeleter> scene_;
};

}  // namespace dp_bench::kuavo_dualarm
