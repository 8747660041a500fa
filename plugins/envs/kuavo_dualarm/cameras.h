// What the cameras see: image observations, video frames, and the poses of the cameras.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "dp_bench/env.h"
#include "dp_bench/mujoco/renderer.h"
#include "kuavo_model.h"
#include "params.h"

namespace dp_bench::kuavo_dualarm {

/// The image keys of the params' obs mode; none for `state`.
std::vector<KeySpec> ImageKeys(const Params& params);

/// In the order of KuavoModel::cameras().
std::vector<std::string> CameraNames();

/// The depth range [mm]; nearer and farther values are clamped to it.
inline constexpr mujoco::DepthRange kDepthRange = {.min_mm = 50, .max_mm = 1500};

class Cameras {
 public:
  /// `model` and `data` must outlive it.
  Cameras(const KuavoModel& model, mjData& data, const Params& params);

  /// Writes the keys of ImageKeys.
  void Observe(const ObsWriter& obs);

  /// All cameras as tiles, row by row and the scene first, or only the scene.
  void Render(RgbImage* frame);

  /// The position of a world point [m] in Render's view of the scene, in a frame of this size: from
  /// the top left, in [0, 1]; NaN if it is behind the camera or outside the view.
  std::array<float, 2> PlaceInFrame(const std::array<double, 3>& point, int width,
                                    int height) const;

  /// `camera`: an index into CameraNames().
  CameraParameters Parameters(int camera, int width, int height) const;
  void RenderCamera(int camera, RgbImage* frame);

 private:
  int Id(int camera) const { return model_.cameras()[static_cast<std::size_t>(camera)]; }
  mujoco::Tile TileOf(int index, int width, int height) const;

  const KuavoModel& model_;
  mjData& data_;  // drawing uses its stack
  const int width_;
  const int height_;
  const bool has_depth_;
  const DType depth_dtype_;
  const bool is_tiled_;
  std::array<std::string, kRobotCameras.size()> image_keys_;  // of obs
  std::array<std::string, kRobotCameras.size()> depth_keys_;
  mujoco::Renderer renderer_;            // of the robot's cameras, as policies see them
  mujoco::Renderer scene_renderer_;      // for videos
  std::vector<std::uint16_t> depth_mm_;  // scratch of Observe for depth in metres
};

}  // namespace dp_bench::kuavo_dualarm
