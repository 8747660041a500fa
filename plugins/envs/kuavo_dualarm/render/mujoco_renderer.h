// Pictures of a MuJoCo simulation: colour and depth from one draw, without a display.
#pragma once

#include <mujoco/mujoco.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "dp_bench/env.h"
#include "render/render_context.h"

namespace dp_bench::kuavo_dualarm {

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
/// that owns it. On one machine the pixels depend only on the model, the state and the picture
/// size, not on the thread or on earlier pictures.
class MujocoRenderer {
 public:
  /// `model`: the model of every later call, or one with the same shapes and textures. Does not use
  /// OpenGL.
  explicit MujocoRenderer(const mjModel& model, RenderSettings settings = {},
                          DepthRange range = {});

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
  struct SceneDeleter {
    void operator()(mjvScene* scene) const;
  };

  enum class Read { kColour, kColourAndDepth };

  // Draws into the memory of the returned context.
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
