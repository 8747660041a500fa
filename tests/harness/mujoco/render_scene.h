// A small scene for the tests of the renderer: a red box on a grey floor, a green and a blue ball,
// a swinging hinge, and cameras in front of and above them.
#pragma once

#include <gtest/gtest.h>
#include <mujoco/mujoco.h>

#include <cstdint>
#include <string>
#include <vector>

#include "dp_bench/mujoco/model.h"
#include "dp_bench/mujoco/renderer.h"

namespace dp_bench::mujoco {

// znear 0.05 m, zfar 20 m
inline constexpr const char* kRenderScene = R"(
<mujoco>
  <statistic extent="1" center="0 0 0"/>
  <visual><map znear="0.05" zfar="20"/></visual>
  <asset>
    <texture name="sky" type="skybox" builtin="flat" rgb1="0.4 0.5 0.9" width="16" height="16"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.5 0.5 0.5" rgb2="0.4 0.4 0.4"
             width="64" height="64"/>
    <material name="floor" texture="tiles" texrepeat="4 4"/>
  </asset>
  <worldbody>
    <light directional="true" pos="-1.8 -0.3 3" dir="0.6 0.1 -1"/>
    <geom name="floor" type="plane" size="3 3 0.1" material="floor"/>
    <geom name="box" type="box" size="0.2 0.2 0.2" pos="0 0 0.2" rgba="0.9 0.1 0.1 1"/>
    <geom name="green" type="sphere" size="0.02" pos="0.2 0.35 0.5" rgba="0 1 0 1"/>
    <geom name="blue" type="sphere" size="0.02" pos="0.1 -0.4 0.3" rgba="0 0 1 1"/>
    <body name="arm" pos="-0.3 0 0.9">
      <joint name="swing" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.04" rgba="0.8 0.8 0.2 1"/>
    </body>
    <camera name="front" pos="2 0 0.2" xyaxes="0 1 0 0 0 1" fovy="45"/>
    <camera name="above" pos="0 0 3" xyaxes="0 1 0 -1 0 0" fovy="40"/>
    <camera name="oblique" pos="1.2 -1.1 1.4" xyaxes="0.7 0.71 0 -0.5 0.45 0.74" fovy="60"/>
    <camera name="up" pos="0 0 1.5" xyaxes="1 0 0 0 -1 0" fovy="60"/>
    <camera name="shadow" pos="0.35 0.02 0.15" xyaxes="0 1 0 -1 0 0" fovy="60"/>
    <camera name="map" pos="0 0 3" xyaxes="1 0 0 0 1 0" projection="orthographic" fovy="2"/>
  </worldbody>
</mujoco>)";

inline ModelPtr LoadRenderScene(const std::string& xml = kRenderScene) {
  std::string error(500, '\0');
  mjSpec* const spec = mj_parseXMLString(xml.c_str(), nullptr, error.data(), 500);
  EXPECT_NE(spec, nullptr) << error;
  ModelPtr model(mj_compile(spec, nullptr));
  EXPECT_NE(model, nullptr) << mjs_getError(spec);
  mj_deleteSpec(spec);
  return model;
}

/// A model with its state, and a renderer of images of 160 x 120.
struct RenderedScene {
  static constexpr int kWidth = 160;
  static constexpr int kHeight = 120;

  explicit RenderedScene(RenderSettings settings = {}, DepthRange range = {})
      : model(LoadRenderScene()),
        data(mj_makeData(model.get())),
        renderer(*model, settings, range) {
    mj_forward(model.get(), data.get());
  }

  int Camera(const char* name) const { return mj_name2id(model.get(), mjOBJ_CAMERA, name); }

  /// Fills `rgb` and `depth_mm`.
  void Draw(const char* camera, int width = kWidth, int height = kHeight) {
    const std::size_t pixels = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
    rgb.assign(3 * pixels, 0);
    depth_mm.assign(pixels, 0);
    renderer.RenderRgbd(*model, *data, Camera(camera), width, height, rgb, depth_mm);
  }

  ModelPtr model;
  DataPtr data;
  Renderer renderer;
  std::vector<std::uint8_t> rgb;
  std::vector<std::uint16_t> depth_mm;
};

}  // namespace dp_bench::mujoco
