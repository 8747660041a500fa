#include "scene_pruning.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <tuple>

namespace dp_bench::mujoco {
namespace {

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

}  // namespace

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

}  // namespace dp_bench::mujoco
