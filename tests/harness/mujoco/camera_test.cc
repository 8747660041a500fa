#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "dp_bench/mujoco/renderer.h"
#include "harness/mujoco/render_scene.h"
#include "support/error_of.h"

namespace dp_bench::mujoco {
namespace {

constexpr int kViewWidth = 640;
constexpr int kViewHeight = 480;

struct Pixel {
  double u;
  double v;
  double z;  // [m] along the optical axis
};

Pixel Project(const CameraParameters& camera, const mjtNum* point) {
  const auto& pose = camera.camera_to_world;
  std::array<double, 3> local = {};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (std::size_t row = 0; row < 3; ++row) {
      local[axis] += pose[4 * row + axis] * (point[row] - pose[4 * row + 3]);
    }
  }
  return {camera.fx * local[0] / local[2] + camera.cx, camera.fy * local[1] / local[2] + camera.cy,
          local[2]};
}

std::array<double, 3> Unproject(const CameraParameters& camera, Pixel pixel) {
  const std::array<double, 3> local = {(pixel.u - camera.cx) / camera.fx * pixel.z,
                                       (pixel.v - camera.cy) / camera.fy * pixel.z, pixel.z};
  const auto& pose = camera.camera_to_world;
  std::array<double, 3> world = {};
  for (std::size_t row = 0; row < 3; ++row) {
    world[row] = pose[4 * row + 3];
    for (std::size_t axis = 0; axis < 3; ++axis) world[row] += pose[4 * row + axis] * local[axis];
  }
  return world;
}

// The mean position of the pixels of one pure colour, as (column, row) with pixel centres at .5.
Pixel CentreOfColour(const RenderedScene& scene, std::size_t channel) {
  double columns = 0.0;
  double rows = 0.0;
  double count = 0.0;
  for (std::size_t i = 0; i < scene.rgb.size() / 3; ++i) {
    const std::uint8_t* const pixel = scene.rgb.data() + 3 * i;
    const int others = pixel[(channel + 1) % 3] + pixel[(channel + 2) % 3];
    if (pixel[channel] > 30 && pixel[channel] > 4 * others) {
      columns += static_cast<double>(i % kViewWidth) + 0.5;
      const std::size_t row = i / kViewWidth;
      rows += static_cast<double>(row) + 0.5;
      count += 1.0;
    }
  }
  EXPECT_GT(count, 10.0);
  return {columns / count, rows / count, 0.0};
}

TEST(CameraParameters, AMarkerIsWhereItsPositionProjectsTo) {
  RenderedScene scene({.shadow_size = 0});
  for (const char* const camera : {"front", "above", "oblique"}) {
    scene.Draw(camera, kViewWidth, kViewHeight);
    const CameraParameters parameters =
        ParametersOf(*scene.model, *scene.data, scene.Camera(camera), kViewWidth, kViewHeight);
    for (const auto& [name, channel] : {std::pair{"green", 1U}, std::pair{"blue", 2U}}) {
      const int geom = mj_name2id(scene.model.get(), mjOBJ_GEOM, name);
      const Pixel expected = Project(parameters, scene.data->geom_xpos + 3 * geom);
      const Pixel found = CentreOfColour(scene, channel);
      EXPECT_NEAR(found.u, expected.u, 0.7) << name << " from " << camera;
      EXPECT_NEAR(found.v, expected.v, 0.7) << name << " from " << camera;
    }
  }
}

TEST(CameraParameters, DepthUnprojectsOntoTheSurfaces) {
  RenderedScene scene;
  scene.Draw("oblique", kViewWidth, kViewHeight);
  const CameraParameters parameters =
      ParametersOf(*scene.model, *scene.data, scene.Camera("oblique"), kViewWidth, kViewHeight);
  int floor = 0;
  int box_top = 0;
  for (int row = 5; row < kViewHeight; row += 10) {
    for (int column = 5; column < kViewWidth; column += 10) {
      const double z = scene.depth_mm[static_cast<std::size_t>(row * kViewWidth + column)] / 1000.0;
      const auto point = Unproject(parameters, {column + 0.5, row + 0.5, z});
      if (std::hypot(point[0], point[1]) > 0.6 && std::hypot(point[0], point[1]) < 1.5) {
        EXPECT_NEAR(point[2], 0.0, 0.001) << "pixel " << column << ", " << row;
        ++floor;
      } else if (std::abs(point[0]) < 0.15 && std::abs(point[1]) < 0.15 && point[2] < 0.6) {
        EXPECT_NEAR(point[2], 0.4, 0.001) << "pixel " << column << ", " << row;
        ++box_top;
      }
    }
  }
  EXPECT_GT(floor, 100);
  EXPECT_GT(box_top, 10);
}

TEST(CameraParameters, FocalLengthFollowsTheHeightAndTheAxisIsTheCentre) {
  RenderedScene scene;
  const CameraParameters parameters =
      ParametersOf(*scene.model, *scene.data, scene.Camera("oblique"), kViewWidth, kViewHeight);
  EXPECT_EQ(parameters.name, "oblique");
  EXPECT_NEAR(parameters.fy, 240.0 / std::tan(mjPI / 6.0), 1e-4);
  EXPECT_EQ(parameters.fx, parameters.fy);
  EXPECT_EQ(parameters.cx, 320.0);
  EXPECT_EQ(parameters.cy, 240.0);
}

TEST(CameraParameters, OrthographicCamerasAreRefused) {
  RenderedScene scene;
  EXPECT_THAT(MessageOf(ErrorCode::kEnv,
                        [&] {
                          ParametersOf(*scene.model, *scene.data, scene.Camera("map"), kViewWidth,
                                       kViewHeight);
                        }),
              testing::HasSubstr("camera 'map' is orthographic"));
}

}  // namespace
}  // namespace dp_bench::mujoco
