// Camera output: image observations, video frames, and the poses of the cameras.
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

inline constexpr std::size_t kNumRobotCameras = 3;

/// The image keys of the params' obs mode, in alphabetical order; none for `state`.
std::vector<KeySpec> ImageKeys(const Params& params);

/// The robot's cameras, then the one that watches the scene.
std::vector<std::string> CameraNames();

/// The depth range [mm]; nearer and farther values are clamped to it.
inline constexpr mujoco::DepthRange kDepthRange = {.min_mm = 50, .max_mm = 1500};

class Pictures {
 public:
  /// `model` and `data` must outlive it.
  Pictures(const KuavoModel& model, mjData& data, const Params& params);

  /// Writes the keys of ImageKeys.
  void Observe(const ObsWriter& obs);

  /// All cameras as tiles (scene and head above, left and right wrist below), or only the scene.
  void Render(RgbImage* frame);

  /// The position of a world point [m] in Render's view of the scene, in a frame of this size: from
  /// the top left, in [0, 1]; NaN if it is behind the camera or outside the view.
  std::array<float, 2> PlaceInFrame(const std::array<double, 3>& point, int width,
                                    int height) const;

  /// `camera`: an index into CameraNames().
  CameraParameters Parameters(int camera, int width, int height) const;
  void RenderCamera(int camera, RgbImage* frame);

 private:
  static constexpr std::size_t kNumCameras = kNumRobotCameras + 1;

  int Id(int camera) const;
  bool IsTiled(int width, int height) const { return tiled_ && width >= 2 && height >= 2; }

  const KuavoModel& model_;
  mjData& data_;  // drawing uses its stack
  int width_;
  int height_;
  bool has_depth_;
  DType depth_dtype_;
  bool tiled_;
  std::array<int, kNumCameras> cameras_;
  std::array<std::string, kNumRobotCameras> image_keys_;  // of obs
  std::array<std::string, kNumRobotCameras> depth_keys_;
  mujoco::Renderer renderer_;            // of the robot's cameras, as policies see them
  mujoco::Renderer scene_renderer_;      // for videos
  std::vector<std::uint16_t> depth_mm_;  // scratch of Observe for depth in metres
};

}  // namespace dp_bench::kuavo_dualarm
