// The param `perturb`: each strength changes its part of the model and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stage.h"

namespace dp_bench::kuavo_dualarm {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

/// The parts of a model that a perturbation may touch.
struct Parts {
  std::vector<double> light;
  std::vector<double> camera;
  std::vector<double> friction;
};

Parts PartsOf(const KuavoEnv& env) {
  const mjModel& m = *env.model().model();
  Parts parts;
  parts.light.assign(m.light_dir, m.light_dir + 3 * m.nlight);
  parts.light.insert(parts.light.end(), m.light_diffuse, m.light_diffuse + 3 * m.nlight);
  parts.light.insert(parts.light.end(), m.vis.headlight.diffuse, m.vis.headlight.diffuse + 3);
  parts.camera.assign(m.cam_pos, m.cam_pos + 3 * m.ncam);
  parts.camera.insert(parts.camera.end(), m.cam_quat, m.cam_quat + 4 * m.ncam);
  parts.friction.assign(m.geom_friction, m.geom_friction + 3 * m.ngeom);
  return parts;
}

Parts PartsWith(const std::string& json, std::uint64_t seed) {
  KuavoEnv env = MakeEnv(json);
  env.Reset(seed);
  return PartsOf(env);
}

/// The whole state after closing the grippers, bit for bit.
std::vector<double> Played(const std::string& json, std::uint64_t seed) {
  KuavoEnv env = MakeEnv(json);
  env.Reset(seed);
  std::vector<float> action = HomeAction();
  action[kNumArmJoints] = 1.0F;
  action[3] += 0.3F;
  for (int i = 0; i < 5; ++i) env.Step(action);
  return StateOf(env);
}

TEST(KuavoPerturbation, OfStrengthZeroSharesTheModelOfAllEnvs) {
  const KuavoEnv plain = MakeEnv();
  const KuavoEnv zero = MakeEnv(R"({"perturb": {"light": 0, "camera": 0, "friction": 0}})");
  EXPECT_EQ(plain.model().model(), zero.model().model());
}

TEST(KuavoPerturbation, LightChangesTheLightAlone) {
  const Parts plain = PartsWith("{}", 3);
  const Parts lit = PartsWith(R"({"perturb": {"light": 1}})", 3);
  EXPECT_NE(lit.light, plain.light);
  EXPECT_EQ(lit.camera, plain.camera);
  EXPECT_EQ(lit.friction, plain.friction);
  EXPECT_EQ(Played(R"({"perturb": {"light": 1}})", 3), Played("{}", 3));
}

TEST(KuavoPerturbation, CameraMovesTheRobotsCamerasAlone) {
  const Parts plain = PartsWith("{}", 3);
  const Parts moved = PartsWith(R"({"perturb": {"camera": 1}})", 3);
  EXPECT_EQ(moved.light, plain.light);
  EXPECT_NE(moved.camera, plain.camera);
  EXPECT_EQ(moved.friction, plain.friction);
  EXPECT_EQ(Played(R"({"perturb": {"camera": 1}})", 3), Played("{}", 3));
}

TEST(KuavoPerturbation, FrictionScalesWhatIsTouchedAlone) {
  const Parts plain = PartsWith("{}", 3);
  const Parts rough = PartsWith(R"({"perturb": {"friction": 1}})", 3);
  EXPECT_EQ(rough.light, plain.light);
  EXPECT_EQ(rough.camera, plain.camera);
  EXPECT_NE(rough.friction, plain.friction);
  for (std::size_t i = 0; i < plain.friction.size(); ++i) {
    EXPECT_NEAR(rough.friction[i], plain.friction[i], 0.5 * plain.friction[i] + 1e-12);
  }
}

TEST(KuavoPerturbation, IsAFunctionOfTheSeedAndScalesWithItsStrength) {
  KuavoEnv env = MakeEnv(R"({"perturb": {"camera": 1}})");
  env.Reset(8);
  env.Reset(3);
  EXPECT_EQ(PartsOf(env).camera, PartsWith(R"({"perturb": {"camera": 1}})", 3).camera);
  env.Reset(4);
  const Parts full = PartsOf(env);
  EXPECT_NE(full.camera, PartsWith(R"({"perturb": {"camera": 1}})", 3).camera);

  const Parts plain = PartsWith("{}", 4);
  const Parts half = PartsWith(R"({"perturb": {"camera": 0.5}})", 4);
  const auto n_positions = static_cast<std::size_t>(3 * env.model().model()->ncam);
  for (std::size_t i = 0; i < n_positions; ++i) {
    EXPECT_NEAR(half.camera[i] - plain.camera[i], 0.5 * (full.camera[i] - plain.camera[i]), 1e-12);
    EXPECT_NEAR(full.camera[i], plain.camera[i], 0.02);
  }
}

TEST(KuavoPerturbation, DrawsOfTheRandomizationStay) {
  const char* const random = R"({"randomization": {"light": 0.3, "mass": 0.2}})";
  const char* const both =
      R"({"randomization": {"light": 0.3, "mass": 0.2}, "perturb": {"friction": 1}})";
  EXPECT_EQ(PartsWith(both, 5).light, PartsWith(random, 5).light);
  EXPECT_NE(PartsWith(both, 5).friction, PartsWith(random, 5).friction);
}

TEST(KuavoPerturbation, EnvWithoutTheParamGetsNoKeys) {
  const Config plain = Config::FromJson("{}");
  const KuavoEnv without(plain);
  EXPECT_THAT(plain.Keys(), Not(Contains("perturb")));
  const Config asked = Config::FromJson(R"({"perturb": {}})");
  const KuavoEnv with(asked);
  EXPECT_THAT(asked.Sub("perturb").Keys(), ElementsAre("camera", "friction", "light"));
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
