#include "pictures.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "dp_bench/error.h"
#include "dp_bench/mujoco/camera.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr int kSceneCamera = kNumRobotCameras;
constexpr std::array<const char*, kNumRobotCameras> kImageKeys = {"head_cam_h", "wrist_cam_l",
                                                                  "wrist_cam_r"};
constexpr std::array<const char*, kNumRobotCameras> kDepthKeys = {"depth_h", "depth_l", "depth_r"};

std::string ImageKey(std::size_t camera) {
  return fmt::format("observation.images.{}", kImageKeys[camera]);
}
std::string DepthKey(std::size_t camera) {
  return fmt::format("observation.depth.{}", kDepthKeys[camera]);
}

}  // namespace

std::vector<KeySpec> ImageKeys(const Params& params) {
  std::vector<KeySpec> keys;
  if (params.obs == ObsMode::kRgbd) {
    for (std::size_t camera = 0; camera < kNumRobotCameras; ++camera) {
      keys.push_back({.name = DepthKey(camera),
                      .type = KeyType::kDepth,
                      .shape = {1, params.image_height, params.image_width},
                      .dtype = params.depth_dtype});
    }
  }
  if (params.obs != ObsMode::kState) {
    for (std::size_t camera = 0; camera < kNumRobotCameras; ++camera) {
      keys.push_back({.name = ImageKey(camera),
                      .type = KeyType::kRgb,
                      .shape = {3, params.image_height, params.image_width},
                      .dtype = DType::kUInt8});
    }
  }
  return keys;
}

std::vector<std::string> CameraNames() {
  return {"head_cam_h", "wrist_cam_l", "wrist_cam_r", "scene_cam"};
}

Pictures::Pictures(const KuavoModel& model, mjData& data, const Params& params)
    : model_(model),
      data_(data),
      width_(params.image_width),
      height_(params.image_height),
      has_depth_(params.obs == ObsMode::kRgbd),
      depth_dtype_(params.depth_dtype),
      tiled_(params.tiled),
      cameras_({model.cameras().head, model.cameras().wrist[0], model.cameras().wrist[1],
                model.cameras().scene}),
      renderer_(*model.model(), {}, kDepthRange),
      scene_renderer_(*model.model(), mujoco::kSmooth) {
  for (std::size_t i = 0; i < kNumRobotCameras; ++i) {
    image_keys_[i] = ImageKey(i);
    depth_keys_[i] = DepthKey(i);
  }
  if (has_depth_ && depth_dtype_ == DType::kFloat32) {
    depth_mm_.resize(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_));
  }
}

void Pictures::Observe(const ObsWriter& obs) {
  const mjModel& model = *model_.model();
  for (std::size_t i = 0; i < kNumRobotCameras; ++i) {
    const std::span<std::uint8_t> rgb = obs.Buffer<std::uint8_t>(image_keys_[i]);
    if (!has_depth_) {
      renderer_.RenderRgb(model, data_, cameras_[i], width_, height_, rgb);
    } else if (depth_dtype_ == DType::kUInt16) {
      renderer_.RenderRgbd(model, data_, cameras_[i], width_, height_, rgb,
                           obs.Buffer<std::uint16_t>(depth_keys_[i]));
    } else {
      renderer_.RenderRgbd(model, data_, cameras_[i], width_, height_, rgb, depth_mm_);
      std::ranges::transform(depth_mm_, obs.Buffer<float>(depth_keys_[i]).begin(),
                             [](std::uint16_t mm) { return static_cast<float>(mm) / 1000.0F; });
    }
  }
}

void Pictures::Render(RgbImage* frame) {
  if (!IsTiled(frame->width, frame->height)) {
    RenderCamera(kSceneCamera, frame);
    return;
  }
  const mjModel& model = *model_.model();
  const int x = frame->width / 2;
  const int y = frame->height / 2;
  const int width = frame->width;
  const int height = frame->height;
  scene_renderer_.RenderTile(model, data_, cameras_[3], {0, 0, x, y}, frame);
  renderer_.RenderTile(model, data_, cameras_[0], {x, 0, width, y}, frame);
  renderer_.RenderTile(model, data_, cameras_[1], {0, y, x, height}, frame);
  renderer_.RenderTile(model, data_, cameras_[2], {x, y, width, height}, frame);
}

std::array<float, 2> Pictures::PlaceInFrame(const std::array<double, 3>& point, int width,
                                            int height) const {
  constexpr float kHidden = std::numeric_limits<float>::quiet_NaN();
  const int tile_width = IsTiled(width, height) ? width / 2 : width;
  const int tile_height = IsTiled(width, height) ? height / 2 : height;
  const CameraParameters camera = Parameters(kSceneCamera, tile_width, tile_height);

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
      seen[2] > 0.0 && x >= 0.0 && x <= tile_width && y >= 0.0 && y <= tile_height;
  if (!is_shown) return {kHidden, kHidden};
  return {static_cast<float>(x / width), static_cast<float>(y / height)};
}

int Pictures::Id(int camera) const { return cameras_[static_cast<std::size_t>(camera)]; }

CameraParameters Pictures::Parameters(int camera, int width, int height) const {
  return mujoco::ParametersOf(*model_.model(), data_, Id(camera), width, height);
}

void Pictures::RenderCamera(int camera, RgbImage* frame) {
  const int id = Id(camera);
  mujoco::Renderer& renderer = id == cameras_.back() ? scene_renderer_ : renderer_;
  renderer.RenderRgb(*model_.model(), data_, id, frame->width, frame->height, frame->pixels);
}

}  // namespace dp_bench::kuavo_dualarm
