// The compiled scenes compared with the robot's data: positions and ranges of motion.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "dp_bench/error.h"
#include "robot_tables.h"
#include "support/error_of.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kExact = 1e-9;

void SetArm(const KuavoModel& model, mjData& data, Side side, const ArmAngles& angles) {
  for (std::size_t i = 0; i < kNumArmJoints; ++i) data.qpos[model.arm(side).qpos[i]] = angles[i];
}

TEST(KuavoScene, EveryTaskHasTheSameRobot) {
  const KuavoModel first = LoadScene();
  for (const char* scene : kTaskScenes) {
    const KuavoModel model = LoadScene(scene);
    ASSERT_GE(model.model()->nu, first.model()->nu) << scene;  // a belt has a motor
    for (const Side side : kSides) {
      EXPECT_EQ(model.arm(side).joint, first.arm(side).joint) << scene;
      EXPECT_EQ(model.arm(side).actuator, first.arm(side).actuator) << scene;
    }
  }
}

TEST(KuavoScene, ServosAreInTheOrderOfTheAction) {
  const KuavoModel model = LoadScene();
  int actuator = 0;
  for (const Side side : kSides) {
    for (const int id : model.arm(side).actuator) EXPECT_EQ(id, actuator++);
    EXPECT_EQ(model.arm(side).gripper_actuator, actuator++);
  }
  EXPECT_EQ(model.head().actuator[0], actuator++);
  EXPECT_EQ(model.head().actuator[1], actuator++);
  EXPECT_EQ(model.model()->nu, actuator);
}

TEST(KuavoScene, ArmLinksHangWhereTheUrdfHasThem) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  for (const Side side : kSides) {
    const std::array<LinkFacts, kNumArmJoints> arm = ArmFacts(side);
    int parent = model.Body("base_link");
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      const std::string name = LinkName(side, i);
      const int body = model.Body(name);
      EXPECT_EQ(m.body_parentid[body], parent) << name;
      ExpectNear(Row(m.body_pos, body), arm[i].offset, kExact, name);
      EXPECT_EQ(m.body_quat[4 * body], 1.0) << name;
      const int joint = model.arm(side).joint[i];
      EXPECT_EQ(m.jnt_bodyid[joint], body) << name;
      EXPECT_EQ(m.jnt_type[joint], mjJNT_HINGE) << name;
      ExpectNear(Row(m.jnt_axis, joint), arm[i].axis, kExact, name);
      ExpectNear(Row(m.jnt_pos, joint), {0, 0, 0}, kExact, name);
      EXPECT_EQ(m.jnt_range[2 * joint], arm[i].low) << name;
      EXPECT_EQ(m.jnt_range[2 * joint + 1], arm[i].high) << name;
      EXPECT_EQ(m.dof_damping[model.arm(side).dof[i]], 0.2) << name;
      EXPECT_EQ(m.dof_armature[model.arm(side).dof[i]], 0.0) << name;
      parent = body;
    }
  }
}

TEST(KuavoScene, ForwardKinematicsIsTheUrdfs) {
  const KuavoModel model = LoadScene();
  const mujoco::DataPtr data = model.MakeData();
  std::minstd_rand random(7);
  for (int trial = 0; trial < 20; ++trial) {
    for (const Side side : kSides) {
      // first home, then anywhere within the ranges
      ArmAngles angles = kHome[Index(side)];
      const std::array<LinkFacts, kNumArmJoints> arm = ArmFacts(side);
      for (std::size_t i = 0; i < kNumArmJoints && trial > 0; ++i) {
        angles[i] = std::uniform_real_distribution<>(arm[i].low, arm[i].high)(random);
      }
      SetArm(model, *data, side, angles);
      mj_kinematics(model.model(), data.get());
      const Frame wrist = ForwardKinematics(side, angles)[kNumArmJoints - 1];
      const std::string name = LinkName(side, kNumArmJoints - 1);
      ExpectNear(Row(data->xpos, model.arm(side).hand_body), wrist.position, 1e-6, name);
      const int site = model.arm(side).pinch_site;
      ExpectNear(Row(data->site_xpos, site),
                 Add(wrist.position, Rotate(wrist.rotation, kPinchInLink7)), 1e-6, name + " pinch");
      for (std::size_t i = 0; i < 9; ++i) {
        EXPECT_NEAR(data->site_xmat[9 * site + static_cast<int>(i)], wrist.rotation[i], 1e-6);
      }
    }
  }
}

TEST(KuavoScene, HomeHoldsTheHandsInFrontOfTheRobot) {
  const KuavoModel model = LoadScene();
  const mujoco::DataPtr data = model.MakeData();
  for (const Side side : kSides) {
    SetArm(model, *data, side, kHome[Index(side)]);
    mj_kinematics(model.model(), data.get());
    const double lateral = side == Side::kLeft ? 1.0 : -1.0;
    const int site = model.arm(side).pinch_site;
    ExpectNear(Row(data->site_xpos, site), {0.238, lateral * 0.293, 0.930}, 6e-4, "pinch");
    const double* const r = data->site_xmat + 9 * site;
    ExpectNear({-r[2], -r[5], -r[8]}, {0.866, 0, -0.5}, 1e-3, "approach");
    ExpectNear({r[0], r[3], r[6]}, {0, -lateral, 0}, 1e-3, "closing axis");
  }
}

TEST(KuavoScene, ShouldersReachAsFarAsTheRobot) {
  const KuavoModel model = LoadScene();
  const mujoco::DataPtr data = model.MakeData();
  SetArm(model, *data, Side::kLeft, {});
  mj_kinematics(model.model(), data.get());
  const Vec3 shoulder = Row(data->xpos, model.Body("zarm_l1_link"));
  EXPECT_NEAR(shoulder[2], 1.2495, 1e-6);
  const auto distance = [&](const double* point) { return mju_dist3(shoulder.data(), point); };
  EXPECT_NEAR(distance(data->xpos + 3 * model.arm(Side::kLeft).hand_body), 0.540, 2e-3);
  EXPECT_NEAR(distance(data->site_xpos + 3 * model.arm(Side::kLeft).pinch_site), 0.688, 2e-3);
}

TEST(KuavoScene, HeadTurnsAndNods) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  const int yaw = model.Joint("zhead_1_joint");
  const int pitch = model.Joint("zhead_2_joint");
  ExpectNear(Row(m.jnt_axis, yaw), {0, 0, 1}, kExact, "yaw");
  ExpectNear(Row(m.jnt_axis, pitch), {0, 1, 0}, kExact, "pitch");
  EXPECT_EQ(m.jnt_range[2 * yaw], -1.57080);
  EXPECT_EQ(m.jnt_range[2 * yaw + 1], 1.57080);
  EXPECT_EQ(m.jnt_range[2 * pitch], -0.52360);
  EXPECT_EQ(m.jnt_range[2 * pitch + 1], 0.52360);
  ExpectNear(Row(m.body_pos, model.Body("zhead_1_link")), {-0.0185, 0, 0.6014}, kExact, "head 1");
  ExpectNear(Row(m.body_pos, model.Body("zhead_2_link")), {0, 0, 0}, kExact, "head 2");
}

TEST(KuavoScene, HeadCameraSeesTheTableAsTheSimulatorsDoes) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  const int camera = model.cameras()[0];
  EXPECT_EQ(m.cam_bodyid[camera], model.Body("zhead_2_link"));
  ExpectNear(Row(m.cam_pos, camera), {0.1, 0, 0.12}, kExact, "head camera");
  EXPECT_EQ(m.cam_fovy[camera], 70.0);

  // pitch, then where the lower edge and the middle of the image meet the table
  struct View {
    double pitch;
    double bottom_x;
    double centre_x;
  };
  const mujoco::DataPtr data = model.MakeData();
  for (const View& view : {View{0.209, 0.283, 0.964}, View{0.40, 0.148, 0.686}}) {
    data->qpos[model.head().qpos[1]] = view.pitch;
    mj_kinematics(&m, data.get());
    mj_camlight(&m, data.get());
    const double* const position = data->cam_xpos + 3 * camera;
    const double* const r = data->cam_xmat + 9 * camera;
    EXPECT_NEAR(r[3], -1.0, 1e-6) << "its right is the robot's right";
    const auto meets_table_at = [&](double up) {  // `up` as a slope in the image
      const double x = -r[2] + up * r[1];
      const double z = -r[8] + up * r[7];
      return position[0] + (kTableTop - position[2]) / z * x;
    };
    EXPECT_NEAR(meets_table_at(-std::tan(35 * kDegree)), view.bottom_x, 1e-3);
    EXPECT_NEAR(meets_table_at(0.0), view.centre_x, 1e-3);
  }
}

TEST(KuavoScene, WristCamerasLookAlongTheApproach) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  for (const Side side : kSides) {
    const double lateral = side == Side::kLeft ? 1.0 : -1.0;
    const int camera = model.cameras()[1 + Index(side)];
    EXPECT_EQ(m.cam_bodyid[camera], model.arm(side).hand_body);
    ExpectNear(Row(m.cam_pos, camera), {0, lateral * 0.05, 0}, kExact, "wrist camera");
    EXPECT_EQ(m.cam_fovy[camera], 60.0);
    Mat3 r = {};
    mju_quat2Mat(r.data(), m.cam_quat + 4 * camera);
    ExpectNear({-r[2], -r[5], -r[8]}, {0, 0, -1}, kExact, "it looks along");
    ExpectNear({r[1], r[4], r[7]}, {0, lateral, 0}, kExact, "its up");
  }
}

TEST(KuavoScene, NearAndFarPlanesAreTwoCentimetresAndTenMetres) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  EXPECT_FLOAT_EQ(m.vis.map.znear * static_cast<float>(m.stat.extent), 0.02F);
  EXPECT_FLOAT_EQ(m.vis.map.zfar * static_cast<float>(m.stat.extent), 10.0F);
  EXPECT_EQ(m.vis.quality.shadowsize, 1024);
}

TEST(KuavoScene, NamesWhatIsMissing) {
  const KuavoModel model = LoadScene();
  EXPECT_THAT(MessageOf(ErrorCode::kEnv, [&] { model.Body("sphere"); }),
              testing::HasSubstr("expected a body named 'sphere'"));
}

TEST(KuavoScene, AFileThatIsNoSceneIsAnError) {
  EXPECT_EQ(CodeOf([] { KuavoModel(DPB_SOURCE_DIR "/scenes/kuavo/table.xml"); }), ErrorCode::kEnv);
  EXPECT_EQ(CodeOf([] { KuavoModel("no_such_file.xml"); }), ErrorCode::kEnv);
}

TEST(KuavoScene, AFolderWithoutTheSceneIsNamed) {
  const std::string message =
      MessageOf(ErrorCode::kEnv, [] { mujoco::FindScene("kuavo/pick_place.xml", "/nowhere"); });
  EXPECT_NE(message.find("/nowhere/kuavo/pick_place.xml"), std::string::npos) << message;
}

TEST(KuavoScene, ACopyLeavesTheSharedModelAlone) {
  const KuavoModel model = LoadScene();
  const KuavoModel same = LoadScene();
  EXPECT_EQ(same.model(), model.model());
  const std::unique_ptr<KuavoModel> copy = model.Copy();
  copy->mutable_model()->opt.timestep = 0.5;
  EXPECT_EQ(copy->model()->opt.timestep, 0.5);
  EXPECT_EQ(model.model()->opt.timestep, 0.002);
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
