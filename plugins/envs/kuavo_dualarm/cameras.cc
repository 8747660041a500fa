#include "cameras.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr int kSceneCamera = kRobotCameras.size();

std::string ImageKey(const RobotCamera& camera) {
  return fmt::format("observation.images.{}", camera.name);
}
std::string DepthKey(const RobotCamera& camera) {
  return fmt::format("observation.depth.{}", camera.depth);
}

}  // namespace

std::vector<KeySpec> ImageKeys(const Params& params) {
  std::vector<KeySpec> keys;
  if (params.obs == ObsMode::kState) return keys;
  for (const RobotCamera& camera : kRobotCameras) {
    keys.push_back({.name = ImageKey(camera),
                    .type = KeyType::kRgb,
                    .shape = {3, params.image_height, params.image_width},
                    .dtype = DType::kUInt8});
    if (params.obs == ObsMode::kRgb) continue;
    keys.push_back({.name = DepthKey(camera),
                    .type = KeyType::kDepth,
                    .shape = {1, params.image_height, params.image_width},
                    .dtype = params.depth_dtype});
  }
  return keys;
}

std::vector<std::string> CameraNames() {
  std::vector<std::string> names;
  for (const RobotCamera& camera : kRobotCameras) names.emplace_back(camera.name);
  names.emplace_back("scene_cam");
  return names;
}

Cameras::Cameras(const KuavoModel& model, mjData& data, const Params& params)
    : model_(model),
      data_(data),
      width_(params.image_width),
      height_(params.image_height),
      has_depth_(params.obs == ObsMode::kRgbd),
      depth_dtype_(params.depth_dtype),
      is_tiled_(params.is_tiled),
      renderer_(*model.model(), {}, kDepthRange),
      scene_renderer_(*model.model(), mujoco::kSmooth) {
  std::ranges::transform(kRobotCameras, image_keys_.begin(), ImageKey);
  std::ranges::transform(kRobotCameras, depth_keys_.begin(), DepthKey);
  if (has_depth_ && depth_dtype_ == DType::kFloat32) {
    depth_mm_.resize(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
  }
}

void Cameras::Observe(const ObsWriter& obs) {
  const mjModel& model = *model_.model();
  for (std::size_t i = 0; i < kRobotCameras.size(); ++i) {
    const int camera = model_.cameras()[i];
    const std::span<std::uint8_t> rgb = obs.Buffer<std::uint8_t>(image_keys_[i]);
    if (!has_depth_) {
      renderer_.RenderRgb(model, data_, camera, width_, height_, rgb);
    } else if (depth_dtype_ == DType::kUInt16) {
      renderer_.RenderRgbd(model, data_, camera, width_, height_, rgb,
                           obs.Buffer<std::uint16_t>(depth_keys_[i]));
    } else {
      renderer_.RenderRgbd(model, data_, camera, width_, height_, rgb, depth_mm_);
      std::ranges::transform(depth_mm_, obs.Buffer<float>(depth_keys_[i]).begin(),
                             [](std::uint16_t mm) { return static_cast<float>(mm) / 1000.0F; });
    }
  }
}

// The smallest square grid that holds all cameras; a frame of fewer pixels shows only the scene.
mujoco::Tile Cameras::TileOf(int index, int width, int height) const {
  int n = 1;
  while (n * n < static_cast<int>(kNumCameras)) ++n;
  if (!is_tiled_ || std::min(width, height) < n) return {0, 0, width, height};
  const int column = index % n;
  const int row = index / n;
  return {column * width / n, row * height / n, (column + 1) * width / n, (row + 1) * height / n};
}

void Cameras::Render(RgbImage* frame) {
  const mjModel& model = *model_.model();
  const mujoco::Tile scene = TileOf(0, frame->width, frame->height);
  scene_renderer_.RenderTile(model, data_, Id(kSceneCamera), scene, frame);
  if (scene.right == frame->width) return;
  for (int camera = 0; camera < kSceneCamera; ++camera) {
    renderer_.RenderTile(model, data_, Id(camera), TileOf(camera + 1, frame->width, frame->height),
                         frame);
  }
}

std::array<float, 2> Cameras::PlaceInFrame(const std::array<double, 3>& point, int width,
                                           int height) const {
  constexpr float kHidden = std::numeric_limits<float>::quiet_NaN();
  const mujoco::Tile tile = TileOf(0, width, height);
  const CameraParameters camera = Parameters(kSceneCamera, tile.right, tile.bottom);

  // the transposed rotation maps a world point to the camera frame
  const std::array<double, 16>& pose = camera.camera_to_world;
  std::array<double, 3> seen = {};
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t axis = 0; axis < 3; ++axis) {
      seen[axis] += pose[4 * row + axis] * (point[row] - pose[4 * row + 3]);
    }
  }
  const double x = camera.fx * seen[0] / seen[2] + camera.cx;
  const double y = camera.fy * seen[1] / seen[2] + camera.cy;
  const bool is_shown =
      seen[2] > 0.0 && x >= 0.0 && x <= tile.right && y >= 0.0 && y <= tile.bottom;
  if (!is_shown) return {kHidden, kHidden};
  return {static_cast<float>(x / width), static_cast<float>(y / height)};
}

CameraParameters Cameras::Parameters(int camera, int width, int height) const {
  return mujoco::ParametersOf(*model_.model(), data_, Id(camera), width, height);
}

void Cameras::RenderCamera(int camera, RgbImage* frame) {
  mujoco::Renderer& renderer = camera == kSceneCamera ? scene_renderer_ : renderer_;
  renderer.RenderRgb(*model_.model(), data_, Id(camera), frame->width, frame->height,
                     frame->pixels);
}

}  // namespace dp_bench::kuavo_dualarm
