// Grippers, allowed collisions, and the sizes of tables and objects.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "robot_tables.h"

namespace dp_bench::kuavo_dualarm {
namespace {

/// Distance between the pads' inner faces [m].
double PadGap(const KuavoModel& model, const mjData& data, Side side) {
  const std::array<int, kNumFingers>& pads = model.arm(side).pad_geom;
  const double distance = mju_dist3(data.geom_xpos + 3 * pads[0], data.geom_xpos + 3 * pads[1]);
  return distance - 2.0 * model.model()->geom_size[3 * pads[0]];
}

TEST(KuavoGripper, GapFollowsTheFourBarLinkageOfThe2f85) {
  // driver angle [rad] of the real gripper's range 0..0.8, and the gap of its pads [mm]
  constexpr std::array<std::array<double, 2>, 12> kCurve = {{{.003, 85.2},
                                                             {.081, 77.8},
                                                             {.159, 70.1},
                                                             {.238, 62.0},
                                                             {.316, 53.6},
                                                             {.394, 44.9},
                                                             {.410, 43.1},
                                                             {.473, 36.0},
                                                             {.551, 26.9},
                                                             {.629, 17.7},
                                                             {.692, 10.3},
                                                             {.800, 0.0}}};
  const KuavoModel model = LoadScene();
  const mujoco::DataPtr data = model.MakeData();
  for (const auto& [angle, gap_mm] : kCurve) {
    const double closure = angle / 0.8;
    for (const Side side : kSides) {
      for (const int qpos : model.arm(side).finger_qpos) data->qpos[qpos] = kFingerTravel * closure;
      mj_kinematics(model.model(), data.get());
      EXPECT_NEAR(1000.0 * PadGap(model, *data, side), gap_mm, 2.5) << "closed " << closure;
      EXPECT_NEAR(model.GripperClosure(*data, side), closure, 1e-12);
    }
  }
}

TEST(KuavoGripper, ClosesToNineTenthsInAQuarterOfASecondWithBothFingersAlike) {
  const KuavoModel model = LoadScene();
  const mujoco::DataPtr data = model.MakeData();
  const ArmIds& arm = model.arm(Side::kRight);
  data->ctrl[arm.gripper_actuator] = kFingerTravel;
  while (data->time < 0.24) mj_step(model.model(), data.get());
  EXPECT_NEAR(model.GripperClosure(*data, Side::kRight), 0.9, 0.02);
  EXPECT_NEAR(data->qpos[arm.finger_qpos[0]], data->qpos[arm.finger_qpos[1]], 1e-5);
  while (data->time < 1.0) mj_step(model.model(), data.get());
  EXPECT_NEAR(model.GripperClosure(*data, Side::kRight), 1.0, 1e-3);
}

TEST(KuavoGripper, PadsAreThoseOfThe2f85) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  for (const Side side : kSides) {
    for (const int pad : model.arm(side).pad_geom) {
      ExpectNear(Row(m.geom_size, pad), {0.004, 0.011, 0.01875}, 1e-12, "pad");
      EXPECT_EQ(m.geom_friction[3 * pad], 1.0);
      EXPECT_EQ(m.geom_priority[pad], 1);
    }
    const int servo = model.arm(side).gripper_actuator;
    EXPECT_EQ(m.actuator_forcerange[2 * servo + 1] / 2.0, 47.0) << "per pad [N]";
    EXPECT_EQ(m.actuator_ctrlrange[2 * servo + 1], kFingerTravel);
  }
}

/// Holds a cube in the closed right hand above the table; returns how far it slips in a second [m].
double SlipOfHeldCube(double closure) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  const mujoco::DataPtr data = model.MakeData();
  const ArmIds& arm = model.arm(Side::kRight);
  for (const Side side : kSides) {
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      data->qpos[model.arm(side).qpos[i]] = kHome[Index(side)][i];
      data->ctrl[model.arm(side).actuator[i]] = kHome[Index(side)][i];
    }
  }
  // just around the cube, then squeeze
  for (const int qpos : arm.finger_qpos) data->qpos[qpos] = 0.0226;
  mj_kinematics(&m, data.get());
  double* const cube = data->qpos + model.QposOf("cube_joint");
  mju_copy3(cube, data->site_xpos + 3 * arm.pinch_site);
  mju_mat2Quat(cube + 3, data->site_xmat + 9 * arm.pinch_site);
  data->ctrl[arm.gripper_actuator] = kFingerTravel * closure;
  while (data->time < 0.5) mj_step(&m, data.get());
  const double early = mju_dist3(cube, data->site_xpos + 3 * arm.pinch_site);
  while (data->time < 1.5) mj_step(&m, data.get());
  EXPECT_NEAR(model.GripperClosure(*data, Side::kRight), 0.53, 0.02) << "the cube stops it";
  EXPECT_TRUE(model.AnyPadTouches(*data, Side::kRight, model.Geom("cube_geom")));
  EXPECT_FALSE(model.AnyPadTouches(*data, Side::kLeft, model.Geom("cube_geom")));
  return mju_dist3(cube, data->site_xpos + 3 * arm.pinch_site) - early;
}

TEST(KuavoGripper, HoldsACubeWithoutSlipping) { EXPECT_LT(SlipOfHeldCube(0.70), 2e-4); }

bool MayTouch(const mjModel& m, int a, int b) {
  return (m.geom_contype[a] & m.geom_conaffinity[b]) != 0 ||
         (m.geom_contype[b] & m.geom_conaffinity[a]) != 0;
}

/// Geoms of `root` and the bodies below it that can collide.
std::set<int> SolidGeomsBelow(const mjModel& m, int root) {
  std::set<int> geoms;
  for (int geom = 0; geom < m.ngeom; ++geom) {
    int body = m.geom_bodyid[geom];
    while (body != root && body != 0) body = m.body_parentid[body];
    const bool solid = m.geom_contype[geom] != 0 || m.geom_conaffinity[geom] != 0;
    if (body == root && solid) geoms.insert(geom);
  }
  return geoms;
}

TEST(KuavoCollisions, ArmsTouchTheWorldAndEachOther) {
  for (const char* scene : kTaskScenes) {
    const KuavoModel model = LoadScene(scene);
    const mjModel& m = *model.model();
    const std::set<int> left = SolidGeomsBelow(m, model.Body("zarm_l1_link"));
    const std::set<int> right = SolidGeomsBelow(m, model.Body("zarm_r1_link"));
    ASSERT_EQ(left.size(), right.size());
    for (const int geom : left) {
      for (const int other : right) EXPECT_TRUE(MayTouch(m, geom, other)) << scene;
    }
    for (int geom = 0; geom < m.ngeom; ++geom) {
      const bool of_the_world = m.geom_group[geom] == 1;
      for (const int arm : left) EXPECT_TRUE(!of_the_world || MayTouch(m, arm, geom)) << scene;
      for (const int arm : right) EXPECT_TRUE(!of_the_world || MayTouch(m, arm, geom)) << scene;
    }
  }
}

TEST(KuavoCollisions, NothingTouchesAnythingWhereverTheJointsOfOneArmAre) {
  // links of one arm, neighbours of each other, must not collide at home with any wrist pose
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  const mujoco::DataPtr data = model.MakeData();
  double* const cube = data->qpos + model.QposOf("cube_joint");
  cube[2] += 0.001;  // off the table
  for (const double share : {0.0, 0.5, 1.0}) {
    for (const Side side : kSides) {
      const ArmIds& arm = model.arm(side);
      for (std::size_t i = 0; i < kNumArmJoints; ++i) {
        data->qpos[arm.qpos[i]] = kHome[Index(side)][i];
      }
      for (const std::size_t i : {std::size_t{4}, std::size_t{5}, std::size_t{6}}) {
        const double* const range = m.jnt_range + 2 * arm.joint[i];
        data->qpos[arm.qpos[i]] = range[0] + share * (range[1] - range[0]);
      }
      for (const int qpos : arm.finger_qpos) data->qpos[qpos] = kFingerTravel;
    }
    mj_fwdPosition(&m, data.get());
    EXPECT_EQ(data->ncon, 0) << "at " << share << " of the wrist's ranges: "
                             << (data->ncon > 0
                                     ? m.names +
                                           m.name_bodyadr[m.geom_bodyid[data->contact[0].geom[0]]]
                                     : "");
  }
}

void ExpectHalfSize(const KuavoModel& model, const char* geom, const Vec3& half) {
  ExpectNear(Row(model.model()->geom_size, model.Geom(geom)), half, 1e-12, geom);
}

TEST(KuavoTasks, ObjectsHaveTheirSizesAndMasses) {
  const KuavoModel pick = LoadScene("pick_place");
  ExpectHalfSize(pick, "cube_geom", {0.02, 0.02, 0.02});
  EXPECT_NEAR(pick.model()->body_mass[pick.Body("cube")], 0.05, 1e-12);
  const KuavoModel lift = LoadScene("bimanual_lift");
  ExpectHalfSize(lift, "tray_ear_l", {0.03, 0.005, 0.035});
  ExpectHalfSize(lift, "tray_ear_r", {0.03, 0.005, 0.035});
  ExpectHalfSize(lift, "load_geom", {0.015, 0.015, 0.015});
  EXPECT_NEAR(lift.model()->body_mass[lift.Body("tray")], 0.4, 1e-12);
  const KuavoModel relay = LoadScene("weigh_relay");
  ExpectHalfSize(relay, "parcel_geom", {0.035, 0.02, 0.02});
  ExpectHalfSize(relay, "scale_geom", {0.08, 0.08, 0.025});
  EXPECT_NEAR(relay.model()->body_mass[relay.Body("parcel")], 0.06, 1e-12);
}

TEST(KuavoTasks, TheTableIsAtItsHeight) {
  const KuavoModel model = LoadScene();
  const mujoco::DataPtr data = model.MakeData();
  mj_kinematics(model.model(), data.get());
  const int geom = model.Geom("table_geom");
  EXPECT_NEAR(data->geom_xpos[3 * geom + 2] + model.model()->geom_size[3 * geom + 2], kTableTop,
              1e-12);
  EXPECT_NEAR(data->xpos[3 * model.Body("base_link") + 2], kBaseHeight, 1e-12);
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
