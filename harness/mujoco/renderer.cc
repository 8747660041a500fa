#include "dp_bench/mujoco/renderer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>

#include "dp_bench/error.h"
#include "render_context.h"

namespace dp_bench::mujoco {
namespace {

constexpr std::size_t kRgb = 3;
constexpr std::size_t kRgba = 4;

// Everything with a surface; no sites, tendons or other editor marks.
mjvOption SurfacesOnly() {
  mjvOption option;
  mjv_defaultOption(&option);
  std::fill(std::begin(option.sitegroup), std::end(option.sitegroup), mjtByte{0});
  option.flags[mjVIS_TENDON] = 0;
  option.flags[mjVIS_RANGEFINDER] = 0;
  option.flags[mjVIS_CONSTRAINT] = 0;
  return option;
}

// Copies an image with rows from the bottom to one with rows from the top, without alpha.
void CopyRgb(std::span<const std::uint8_t> rgba, std::size_t width, std::size_t height,
             std::size_t stride, std::uint8_t* rgb) {
  for (std::size_t row = 0; row < height; ++row) {
    const std::uint8_t* from = rgba.data() + (height - 1 - row) * width * kRgba;
    std::uint8_t* to = rgb + row * stride;
    for (std::size_t i = 0; i < width; ++i) {
      to[kRgb * i] = from[kRgba * i];
      to[kRgb * i + 1] = from[kRgba * i + 1];
      to[kRgb * i + 2] = from[kRgba * i + 2];
    }
  }
}

// MuJoCo draws the sky as a shell around the camera, at this share of zfar.
constexpr float kSkyShare = 0.69F;

// The depth buffer and the meaning of its numbers.
struct DepthBuffer {
  std::span<const float> values;  // [height, width], rows from the bottom
  std::size_t width;
  std::size_t height;
  float near;    // [m]
  float far;     // [m]
  float tan_up;  // of half the vertical field of view
};

// The buffer holds b = near (far - z) / (z (far - near)): 1 at the near plane, 0 at the far plane,
// for the best precision. So z = near far / (near + b (far - near)). If the ray (x, y, 1) z is as
// long as the distance to the sky, it hit nothing.
void CopyDepth(const DepthBuffer& buffer, DepthRange range, std::uint16_t* depth_mm) {
  const float numerator = 1000.0F * buffer.near * buffer.far;  // to mm
  const float span = buffer.far - buffer.near;
  const float sky_mm = 1000.0F * kSkyShare * buffer.far;
  const float lowest = range.min_mm;
  const float highest = range.max_mm;
  const float per_pixel = 2.0F * buffer.tan_up / static_cast<float>(buffer.height);
  const float centre_column = 0.5F * static_cast<float>(buffer.width);
  const float centre_row = 0.5F * static_cast<float>(buffer.height);
  for (std::size_t row = 0; row < buffer.height; ++row) {
    const float* from = buffer.values.data() + (buffer.height - 1 - row) * buffer.width;
    std::uint16_t* to = depth_mm + row * buffer.width;
    const float y = per_pixel * (static_cast<float>(row) + 0.5F - centre_row);
    for (std::size_t i = 0; i < buffer.width; ++i) {
      const float x = per_pixel * (static_cast<float>(i) + 0.5F - centre_column);
      const float z = numerator / (buffer.near + from[i] * span);
      const float mm = z * z * (1.0F + x * x + y * y) < sky_mm * sky_mm ? z : highest;
      to[i] = static_cast<std::uint16_t>(
          static_cast<int>(std::min(std::max(mm, lowest), highest) + 0.5F));
    }
  }
}

// What follows draws less for the same image.

using Vector = std::array<float, 3>;

Vector Load(const float* values) { return {values[0], values[1], values[2]}; }

float Dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector Cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

// The unit vector along x a + y b.
Vector Direction(float x, const Vector& a, float y, const Vector& b) {
  Vector sum = {x * a[0] + y * b[0], x * a[1] + y * b[1], x * a[2] + y * b[2]};
  const float scale = 1.0F / std::sqrt(Dot(sum, sum));
  for (float& value : sum) value *= scale;
  return sum;
}

// The view pyramid of a camera: the planes through its position, with inward normals.
struct ViewPyramid {
  Vector apex;
  std::array<Vector, 5> normals;  // behind, left, right, bottom, top
};

ViewPyramid PyramidOf(const mjvGLCamera& camera, int width, int height) {
  const Vector forward = Load(camera.forward);
  const Vector up = Load(camera.up);
  const Vector right = Cross(forward, up);
  const float half_width = camera.frustum_width > 0.0F
                               ? camera.frustum_width
                               : 0.5F * static_cast<float>(width) / static_cast<float>(height) *
                                     (camera.frustum_top - camera.frustum_bottom);
  const float near = camera.frustum_near;
  const float left_edge = camera.frustum_center - half_width;
  const float right_edge = camera.frustum_center + half_width;
  return {Load(camera.pos),
          {forward, Direction(near, right, -left_edge, forward),
           Direction(-near, right, right_edge, forward),
           Direction(near, up, -camera.frustum_bottom, forward),
           Direction(-near, up, camera.frustum_top, forward)}};
}

// Whether a sphere, and its shadow along each direction, is outside the pyramid.
bool IsOutOfSight(const Vector& centre, float radius, const ViewPyramid& pyramid,
                  std::span<const Vector> light_directions) {
  const Vector offset = {centre[0] - pyramid.apex[0], centre[1] - pyramid.apex[1],
                         centre[2] - pyramid.apex[2]};
  const auto is_outside = [&](const Vector& normal) { return Dot(offset, normal) < -radius; };
  if (std::none_of(pyramid.normals.begin(), pyramid.normals.end(), is_outside)) {
    return false;
  }
  return std::all_of(light_directions.begin(), light_directions.end(), [&](const Vector& light) {
    return std::any_of(pyramid.normals.begin(), pyramid.normals.end(), [&](const Vector& normal) {
      return is_outside(normal) && Dot(light, normal) <= 0.0F;
    });
  });
}

// Whether the geom has a bounding sphere; planes and decoration have none.
bool HasBound(const mjvGeom& geom) { return geom.modelrbound > 0.0F; }

void DropGeomsOutOfSight(const mjvGLCamera& camera, int width, int height, mjvScene* scene) {
  constexpr std::size_t kMaxLights = 8;
  std::array<Vector, kMaxLights> lights = {};
  std::size_t num_lights = 0;
  for (int i = 0; i < scene->nlight; ++i) {
    const mjvLight& light = scene->lights[i];
    if (scene->flags[mjRND_SHADOW] == 0 || light.castshadow == 0) continue;
    if (light.type != mjLIGHT_DIRECTIONAL || num_lights == kMaxLights) return;
    lights[num_lights++] = Load(light.dir);
  }
  const ViewPyramid pyramid = PyramidOf(camera, width, height);
  const std::span<mjvGeom> geoms(scene->geoms, static_cast<std::size_t>(scene->ngeom));
  const auto end = std::remove_if(geoms.begin(), geoms.end(), [&](const mjvGeom& geom) {
    return HasBound(geom) && IsOutOfSight(Load(geom.pos), geom.modelrbound, pyramid,
                                          std::span(lights).first(num_lights));
  });
  scene->ngeom = static_cast<int>(end - geoms.begin());
}

// Prepares the scene from mjv_updateScene for one camera and an image of this shape. Drops geoms
// whose surface and shadow cannot be visible, disables the shadows of planes (they are the ground),
// and sorts near geoms first, so that hidden pixels are not shaded.
void PruneScene(int width, int height, mjvScene* scene) {
  // MuJoCo draws from the midpoint between the eyes
  const mjvGLCamera camera = mjv_averageCamera(&scene->camera[0], &scene->camera[1]);
  DropGeomsOutOfSight(camera, width, height, scene);

  const Vector eye = Load(camera.pos);
  const std::span<mjvGeom> geoms(scene->geoms, static_cast<std::size_t>(scene->ngeom));
  for (mjvGeom& geom : geoms) {
    if (geom.type == mjGEOM_PLANE) {
      geom.camdist = std::numeric_limits<float>::max();
      geom.category = mjCAT_DECOR;  // decoration casts no shadow
    } else {
      const Vector offset = {geom.pos[0] - eye[0], geom.pos[1] - eye[1], geom.pos[2] - eye[2]};
      geom.camdist = Dot(offset, offset);
    }
  }
  std::sort(geoms.begin(), geoms.end(), [](const mjvGeom& a, const mjvGeom& b) {
    return std::tie(a.camdist, a.objid) < std::tie(b.camdist, b.objid);
  });
}

}  // namespace

class Renderer::Impl {
 public:
  enum class Read { kColour, kColourAndDepth };

  Impl(const mjModel& model, const RenderSettings& settings, DepthRange range)
      : asset_key_(AssetKey(model)),
        settings_(settings),
        range_(range),
        option_(SurfacesOnly()),
        scene_(new mjvScene) {
    mjv_defaultScene(scene_.get());
    mjv_makeScene(&model, scene_.get(), static_cast<int>(model.ngeom) + 1);
    scene_->flags[mjRND_SHADOW] = settings.shadow_size > 0;
    scene_->flags[mjRND_REFLECTION] = 0;
  }

  // Draws into the memory of the returned context.
  RenderContext& Draw(const mjModel& model, const mjData& data, int camera, int width, int height,
                      Read read);
  void DrawRgb(const mjModel& model, const mjData& data, int camera, int width, int height,
               std::size_t stride, std::uint8_t* rgb);  // rows `stride` bytes apart

  // of the last draw
  const mjvGLCamera& view() const { return scene_->camera[0]; }
  DepthRange range() const { return range_; }

 private:
  struct SceneDeleter {
    void operator()(mjvScene* scene) const {
      mjv_freeScene(scene);
      delete scene;
    }
  };

  std::uint64_t asset_key_;
  RenderSettings settings_;
  DepthRange range_;
  mjvOption option_;
  std::unique_ptr<mjvScene, SceneDeleter> scene_;
};

RenderContext& Renderer::Impl::Draw(const mjModel& model, const mjData& data, int camera, int width,
                                    int height, Read read) {
  DPB_ASSERT(camera >= 0 && camera < model.ncam && width > 0 && height > 0);
  mjvCamera view;
  mjv_defaultCamera(&view);
  view.type = mjCAMERA_FIXED;
  view.fixedcamid = camera;
  // MuJoCo takes mutable data for scratch memory and plugins; it does not change the state
  mjv_updateScene(&model, const_cast<mjData*>(&data), &option_, /*pert=*/nullptr, &view, mjCAT_ALL,
                  scene_.get());
  PruneScene(width, height, scene_.get());

  const auto n_pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  const bool with_depth = read == Read::kColourAndDepth;
  const mjrRect frame = {0, 0, width, height};
  const GlTurn turn;
  RenderContext& context = ThreadRenderContext(turn, model, asset_key_, settings_, width, height);
  context.rgba.resize(n_pixels * kRgba);
  if (with_depth) context.depth.resize(n_pixels);
  mjr_setBuffer(mjFB_OFFSCREEN, &context.mujoco);
  mjr_render(frame, scene_.get(), &context.mujoco);
  mjr_readPixels(context.rgba.data(), with_depth ? context.depth.data() : nullptr, frame,
                 &context.mujoco);
  mjr_finish();
  return context;
}

void Renderer::Impl::DrawRgb(const mjModel& model, const mjData& data, int camera, int width,
                             int height, std::size_t stride, std::uint8_t* rgb) {
  const auto columns = static_cast<std::size_t>(width);
  const auto rows = static_cast<std::size_t>(height);
  const RenderContext& context = Draw(model, data, camera, width, height, Read::kColour);
  CopyRgb(context.rgba, columns, rows, stride, rgb);
}

Renderer::Renderer(const mjModel& model, const RenderSettings& settings, DepthRange range)
    : impl_(std::make_unique<Impl>(model, settings, range)) {}
Renderer::Renderer(Renderer&&) noexcept = default;
Renderer& Renderer::operator=(Renderer&&) noexcept = default;
Renderer::~Renderer() = default;

void Renderer::RenderRgb(const mjModel& model, const mjData& data, int camera, int width,
                         int height, std::span<std::uint8_t> rgb) {
  const std::size_t stride = static_cast<std::size_t>(width) * kRgb;
  DPB_ASSERT(rgb.size() == stride * static_cast<std::size_t>(height));
  impl_->DrawRgb(model, data, camera, width, height, stride, rgb.data());
}

void Renderer::RenderRgbd(const mjModel& model, const mjData& data, int camera, int width,
                          int height, std::span<std::uint8_t> rgb,
                          std::span<std::uint16_t> depth_mm) {
  const auto columns = static_cast<std::size_t>(width);
  const auto rows = static_cast<std::size_t>(height);
  DPB_ASSERT(rgb.size() == columns * rows * kRgb && depth_mm.size() == columns * rows);
  const RenderContext& context =
      impl_->Draw(model, data, camera, width, height, Impl::Read::kColourAndDepth);
  CopyRgb(context.rgba, columns, rows, columns * kRgb, rgb.data());
  const mjvGLCamera& view = impl_->view();
  CopyDepth({.values = context.depth,
             .width = columns,
             .height = rows,
             .near = view.frustum_near,
             .far = view.frustum_far,
             .tan_up = view.frustum_top / view.frustum_near},
            impl_->range(), depth_mm.data());
}

void Renderer::RenderTile(const mjModel& model, const mjData& data, int camera, const Tile& tile,
                          RgbImage* frame) {
  DPB_ASSERT(tile.left >= 0 && tile.top >= 0 && tile.right <= frame->width &&
             tile.bottom <= frame->height);
  const int width = tile.right - tile.left;
  const int height = tile.bottom - tile.top;
  const std::size_t stride = static_cast<std::size_t>(frame->width) * kRgb;
  impl_->DrawRgb(model, data, camera, width, height, stride,
                 frame->pixels.data() + static_cast<std::size_t>(tile.top) * stride +
                     static_cast<std::size_t>(tile.left) * kRgb);
}

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
