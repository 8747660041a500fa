// The content of each observation mode.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "stage.h"
#include "support/error_of.h"

namespace dp_bench::kuavo_dualarm {
namespace {

std::vector<std::string> KeyNames(const KuavoEnv& env) {
  std::vector<std::string> names;
  for (const KeySpec& key : env.spec().shape_meta.obs) names.push_back(key.name);
  return names;
}

// Of all cameras, in alphabetical order.
std::vector<std::string> CameraKeys(bool has_depth) {
  std::vector<std::string> names = {"observation.state"};
  for (const RobotCamera& camera : kRobotCameras) {
    names.push_back("observation.images." + std::string(camera.name));
    if (has_depth) names.push_back("observation.depth." + std::string(camera.depth));
  }
  std::ranges::sort(names);
  return names;
}

TEST(KuavoObservation, StateModeHasObjectsAndJoints) {
  EXPECT_THAT(KeyNames(MakeEnv()),
              testing::ElementsAre("observation.environment_state", "observation.state"));
}

TEST(KuavoObservation, RgbModeHasTheCamerasAndJoints) {
  const KuavoEnv env = MakeEnv(R"({"obs": "rgb"})");
  EXPECT_EQ(KeyNames(env), CameraKeys(/*has_depth=*/false));
  EXPECT_THAT(KeyNames(env), testing::IsSupersetOf({"observation.images.head_cam_h",
                                                    "observation.images.wrist_cam_l",
                                                    "observation.images.wrist_cam_r"}));
  EXPECT_EQ(env.spec().shape_meta.obs[0].shape, (Shape{3, 480, 640}));
}

TEST(KuavoObservation, RgbdModeAddsDepth) {
  const KuavoEnv env = MakeEnv(
      R"({"obs": "rgbd", "image_width": 64, "image_height": 48, "depth_dtype": "float32"})");
  EXPECT_EQ(KeyNames(env), CameraKeys(/*has_depth=*/true));
  EXPECT_THAT(KeyNames(env),
              testing::IsSupersetOf({"observation.depth.depth_h", "observation.depth.depth_l",
                                     "observation.depth.depth_r"}));
  EXPECT_EQ(env.spec().shape_meta.obs[0].shape, (Shape{1, 48, 64}));
  EXPECT_EQ(env.spec().shape_meta.obs[0].dtype, DType::kFloat32);
}

TEST(KuavoObservation, RefusesAnUnknownTaskWithTheOnesItHas) {
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [] { MakeEnv(R"({"task": "dance"})"); }),
              testing::HasSubstr("weigh_relay"));
}

TEST(KuavoObservation, StateIsWhatIsMeasured) {
  KuavoEnv env = MakeEnv();
  env.Reset(2);
  std::vector<float> action = HomeAction();
  action[kNumArmJoints] = 0.5F;
  for (int step = 0; step < 10; ++step) env.Step(action);
  const Observation obs(env);
  const std::span<const float> state = obs.Get<float>("observation.state");
  ASSERT_EQ(state.size(), kActionDim);
  for (std::size_t i = 0; i < kActionDim; ++i) EXPECT_NEAR(state[i], action[i], 2e-3) << i;
}

TEST(KuavoObservation, EnvironmentStateIsCubePoseAndTray) {
  KuavoEnv env = MakeEnv();
  env.Reset(2);
  const Observation obs(env);
  const std::span<const float> found = obs.Get<float>("observation.environment_state");
  const std::array<double, 3> cube = PositionOf(env, "cube");
  const std::array<double, 3> tray = PositionOf(env, "tray");
  const double* const r = env.data().xmat + 9 * env.model().Body("cube");
  const std::vector<double> wanted = {cube[0], cube[1], cube[2], r[0],    r[3],   r[6],
                                      r[1],    r[4],    r[7],    tray[0], tray[1]};
  ASSERT_EQ(found.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-6) << i;
}

TEST(KuavoObservation, EnvironmentStateTellsHowFarTheWeighingIs) {
  KuavoEnv env = MakeEnv(R"({"task": "weigh_relay"})");
  env.Reset(2);
  Teleport(env, "parcel", {0.34, 0.0, 0.8201});
  StayHome(env, 3);
  const Observation obs(env);
  EXPECT_FLOAT_EQ(obs.Get<float>("observation.environment_state").back(), 0.6F);
}

TEST(KuavoObservation, DepthIsClippedMillimetresOrMetres) {
  KuavoEnv in_mm = MakeEnv(R"({"obs": "rgbd", "image_width": 64, "image_height": 48})");
  KuavoEnv in_m = MakeEnv(
      R"({"obs": "rgbd", "image_width": 64, "image_height": 48, "depth_dtype": "float32"})");
  in_mm.Reset(4);
  in_m.Reset(4);
  const Observation mm(in_mm);
  const Observation m(in_m);
  for (const char* key :
       {"observation.depth.depth_h", "observation.depth.depth_l", "observation.depth.depth_r"}) {
    const auto millimetres = mm.Get<std::uint16_t>(key);
    const auto metres = m.Get<float>(key);
    for (std::size_t i = 0; i < millimetres.size(); ++i) {
      EXPECT_GE(millimetres[i], 50);
      EXPECT_LE(millimetres[i], 1500);
      EXPECT_FLOAT_EQ(metres[i], static_cast<float>(millimetres[i]) / 1000.0F);
    }
  }
  // the middle of the head's image is the table, 52.9 degrees down from 0.748 m above it
  const std::size_t middle = 24 * 64 + 32;
  EXPECT_NEAR(mm.Get<std::uint16_t>("observation.depth.depth_h")[middle], 938, 15);
}

TEST(KuavoObservation, CamerasAreThoseOfTheKeysAndTheScene) {
  KuavoEnv env = MakeEnv();
  env.Reset(0);
  std::vector<std::string> wanted;
  for (const RobotCamera& camera : kRobotCameras) wanted.emplace_back(camera.name);
  wanted.emplace_back("scene_cam");
  EXPECT_EQ(env.spec().abilities.cameras, wanted);
  EXPECT_NEAR(env.GetCamera(0, 640, 480).fy, 342.76, 0.01);
  EXPECT_NEAR(env.GetCamera(1, 640, 480).fx, 415.69, 0.01);
  EXPECT_EQ(CodeOf([&] { env.GetCamera(kNumCameras, 640, 480); }), ErrorCode::kEnv);
}

TEST(KuavoObservation, HeadPitchIsTheParams) {
  KuavoEnv env = MakeEnv(R"({"head_pitch": 0.209})");
  env.Reset(0);
  StayHome(env, 2);
  EXPECT_NEAR(env.data().qpos[env.model().head().qpos[1]], 0.209, 1e-6);
}

constexpr int kTileWidth = 64;
constexpr int kTileHeight = 48;

/// The mean brightness of a tile of an image.
double Brightness(const RgbImage& frame, int column, int row) {
  double sum = 0.0;
  for (int y = row * kTileHeight; y < (row + 1) * kTileHeight; ++y) {
    for (int x = column * kTileWidth; x < (column + 1) * kTileWidth; ++x) {
      sum += frame.pixels[3 * static_cast<std::size_t>(y * frame.width + x)];
    }
  }
  return sum / (kTileWidth * kTileHeight);
}

TEST(KuavoObservation, RenderTilesTheSceneAndTheRobotsCameras) {
  KuavoEnv env = MakeEnv();
  env.Reset(0);
  const int n_cameras = static_cast<int>(kNumCameras);
  const int n = static_cast<int>(std::ceil(std::sqrt(n_cameras)));  // columns, and rows
  RgbImage tiles(n * kTileWidth, n * kTileHeight);
  env.Render(&tiles);
  for (int camera = 0; camera < n_cameras; ++camera) {
    RgbImage alone(kTileWidth, kTileHeight);
    env.RenderCamera(camera, &alone);
    const int tile = (camera + 1) % n_cameras;  // the last camera, that of the scene, is the first
    EXPECT_NEAR(Brightness(tiles, tile % n, tile / n), Brightness(alone, 0, 0), 1e-9)
        << "camera " << camera;
  }
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
