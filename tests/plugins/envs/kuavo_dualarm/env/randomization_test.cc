// Domain randomization: drawn from the seed, within its bounds, independent of earlier episodes.
#include <gtest/gtest.h>

#include "stage.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr const char* kEverything = R"({"task": "weigh_relay", "randomization": {
  "light": 0.3, "colours": 0.5, "camera_position": 0.01, "camera_rotation": 0.05, "friction": 0.2,
  "mass": 0.3, "control_delay": 0.08, "action_noise": 0.01}})";

/// The numbers of a model that randomization may change.
std::vector<double> Numbers(const KuavoEnv& env) {
  const mjModel& m = *env.model().model();
  std::vector<double> numbers(m.light_dir, m.light_dir + 3 * m.nlight);
  numbers.insert(numbers.end(), m.mat_rgba, m.mat_rgba + 4 * m.nmat);
  numbers.insert(numbers.end(), m.cam_pos, m.cam_pos + 3 * m.ncam);
  numbers.insert(numbers.end(), m.cam_quat, m.cam_quat + 4 * m.ncam);
  numbers.insert(numbers.end(), m.geom_friction, m.geom_friction + 3 * m.ngeom);
  numbers.insert(numbers.end(), m.body_mass, m.body_mass + m.nbody);
  numbers.insert(numbers.end(), m.dof_invweight0, m.dof_invweight0 + m.nv);
  return numbers;
}

TEST(KuavoRandomization, IsOffByDefaultAndEnvsShareTheirModel) {
  const KuavoEnv env = MakeEnv();
  const KuavoEnv other = MakeEnv();
  EXPECT_EQ(env.model().model(), other.model().model());
}

TEST(KuavoRandomization, AnEpisodesModelDependsOnItsSeedAlone) {
  KuavoEnv env = MakeEnv(kEverything);
  KuavoEnv other = MakeEnv(kEverything);
  EXPECT_NE(env.model().model(), other.model().model());
  env.Reset(1);
  const std::vector<double> wanted = Numbers(env);
  for (std::uint64_t seed = 2; seed < 12; ++seed) {
    other.Reset(seed);
    EXPECT_NE(Numbers(other), wanted);
  }
  other.Reset(1);
  EXPECT_EQ(Numbers(other), wanted);
}

TEST(KuavoRandomization, StaysWithinItsBounds) {
  KuavoEnv env = MakeEnv(kEverything);
  const KuavoEnv plain = MakeEnv(R"({"task": "weigh_relay"})");
  const mjModel& m = *env.model().model();
  const mjModel& original = *plain.model().model();
  const int parcel = plain.model().Body("parcel");
  const int pad = plain.model().arm(Side::kRight).pad_geom[0];
  const int camera = plain.model().cameras().front();
  double lightest = 1e9;
  double heaviest = 0.0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    env.Reset(seed);
    lightest = std::min(lightest, m.body_mass[parcel]);
    heaviest = std::max(heaviest, m.body_mass[parcel]);
    EXPECT_NEAR(m.geom_friction[3 * pad], 1.0, 0.2);
    for (int axis = 0; axis < 3; ++axis) {
      EXPECT_NEAR(m.cam_pos[3 * camera + axis], original.cam_pos[3 * camera + axis], 0.01);
    }
    EXPECT_EQ(m.cam_pos[3 * plain.model().cameras().back()],
              original.cam_pos[3 * plain.model().cameras().back()])
        << "the camera of the videos stays";
    EXPECT_EQ(m.body_mass[plain.model().Body("zarm_l3_link")], 1.650);
  }
  EXPECT_GT(lightest, 0.7 * 0.06);
  EXPECT_LT(heaviest, 1.3 * 0.06);
  EXPECT_GT(heaviest - lightest, 0.5 * 0.06) << "the range is used";
}

TEST(KuavoRandomization, ASwitchThatIsOffLeavesItsPartAlone) {
  KuavoEnv env = MakeEnv(R"({"randomization": {"mass": 0.3}})");
  const KuavoEnv plain = MakeEnv();
  env.Reset(5);
  const mjModel& m = *env.model().model();
  const mjModel& original = *plain.model().model();
  for (int i = 0; i < 4 * m.nmat; ++i) EXPECT_EQ(m.mat_rgba[i], original.mat_rgba[i]);
  for (int i = 0; i < 3 * m.ngeom; ++i) EXPECT_EQ(m.geom_friction[i], original.geom_friction[i]);
  for (int i = 0; i < 3 * m.nlight; ++i) EXPECT_NEAR(m.light_dir[i], original.light_dir[i], 1e-12);
}

TEST(KuavoRandomization, WithoutSpreadObjectsStartInTheMiddle) {
  KuavoEnv env = MakeEnv(R"({"randomization": {"object_pose": 0.0}})");
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    env.Reset(seed);
    const std::array<double, 3> cube = PositionOf(env, "cube");
    EXPECT_NEAR(cube[0], 0.34, 1e-12);
    EXPECT_NEAR(cube[1], -0.27, 1e-12);
    EXPECT_NEAR(cube[2], 0.77, 1e-12);
  }
}

TEST(KuavoRandomization, ActionNoiseMovesTheJointsTheSameWayForASeed) {
  KuavoEnv noisy = MakeEnv(R"({"randomization": {"action_noise": 0.02}})");
  const auto elbow_after = [&](std::uint64_t seed) {
    noisy.Reset(seed);
    StayHome(noisy, 5);
    return noisy.data().qpos[noisy.model().arm(Side::kRight).qpos[3]];
  };
  const double first = elbow_after(1);
  EXPECT_NE(first, kHome[1][3]);
  EXPECT_NEAR(first, kHome[1][3], 0.1);
  EXPECT_NE(elbow_after(2), first);
  EXPECT_EQ(elbow_after(1), first);
}

TEST(KuavoRandomization, ADelayLetsTheTargetsLag) {
  KuavoEnv env = MakeEnv(R"({"randomization": {"control_delay": 0.1}})");
  std::vector<float> action = HomeAction();
  action[3] += 0.5F;
  double shortest = 1.0;
  double longest = 0.0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    env.Reset(seed);
    env.Step(action);
    const double late = (static_cast<double>(action[3]) - env.data().ctrl[3]) / 5.0;  // [s]
    shortest = std::min(shortest, late);
    longest = std::max(longest, late);
  }
  EXPECT_GE(shortest, 0.0);
  EXPECT_LT(shortest, 0.02);
  EXPECT_GT(longest, 0.08);
  EXPECT_LE(longest, 0.1);
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
