// The compiled scenes compared with the robot's data: masses, torques, and the effect of gravity.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "robot_tables.h"

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kGravity = 9.81;

/// The inertia of a body about its centre of mass in its own axes.
Mat3 InertiaOf(const mjModel& m, int body) {
  Mat3 axes = {};
  mju_quat2Mat(axes.data(), m.body_iquat + 4 * body);
  Mat3 scaled = axes;
  Mat3 transposed = {};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      scaled[3 * i + j] *= m.body_inertia[3 * body + static_cast<int>(j)];
      transposed[3 * j + i] = axes[3 * i + j];
    }
  }
  return Multiply(scaled, transposed);
}

void ExpectInertial(const KuavoModel& model, const std::string& name, double mass, const Vec3& com,
                    const Vec3& inertia, const Vec3& products) {
  const mjModel& m = *model.model();
  const int body = model.Body(name);
  EXPECT_NEAR(m.body_mass[body], mass, 1e-9) << name;
  ExpectNear(Row(m.body_ipos, body), com, 1e-9, name + " centre of mass");
  const Mat3 found = InertiaOf(m, body);
  ExpectNear({found[0], found[4], found[8]}, inertia, 1e-9, name + " inertia");
  ExpectNear({found[1], found[2], found[5]}, products, 1e-9, name + " products of inertia");
}

TEST(KuavoScene, LinksWeighWhatTheUrdfSays) {
  const KuavoModel model = LoadScene();
  for (const Side side : kSides) {
    const std::array<LinkFacts, kNumArmJoints> arm = ArmFacts(side);
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      ExpectInertial(model, LinkName(side, i), arm[i].mass, arm[i].com, arm[i].inertia,
                     arm[i].products);
    }
  }
  ExpectInertial(model, "base_link", 22.113, {-0.0185, 0.0003, 0.1930}, {0.9310, 0.8259, 0.2769},
                 {0, -0.0721, 0});
  ExpectInertial(model, "zhead_1_link", 0.35, {0.00002, 0.00605, -0.01052}, {7e-5, 5e-5, 5e-5},
                 {0, 0, 0});
  ExpectInertial(model, "zhead_2_link", 0.5492, {0.02648, -0.00142, 0.10674},
                 {0.00346, 0.00348, 0.00222}, {0, 0, 0});
}

TEST(KuavoScene, GripperWeighsNineHundredGrams) {
  const KuavoModel model = LoadScene();
  for (const char* side : {"l", "r"}) {
    const std::string gripper = std::string(side) + "_gripper";
    EXPECT_NEAR(model.model()->body_subtreemass[model.Body(gripper)], kGripperMass, 1e-4);
    ExpectInertial(model, gripper, 0.777441, kGripperBaseCom, {2.25e-4, 2.60e-4, 1.53e-4},
                   {0, 0, 0});
  }
}

TEST(KuavoScene, ServosAndJointsHaveTheRobotsTorqueLimits) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  constexpr std::array<double, kNumArmJoints> kStiffness = {400, 400, 200, 200, 60, 60, 60};
  for (const Side side : kSides) {
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      const int servo = model.arm(side).actuator[i];
      const int joint = model.arm(side).joint[i];
      const double torque = kLeftArm[i].torque;
      for (const double* range :
           {m.actuator_forcerange + 2 * servo, m.jnt_actfrcrange + 2 * joint}) {
        EXPECT_EQ(range[0], -torque) << "joint " << i + 1;
        EXPECT_EQ(range[1], torque) << "joint " << i + 1;
      }
      EXPECT_TRUE(m.jnt_actgravcomp[joint]) << "its torque counts against the limit";
      EXPECT_EQ(m.actuator_gainprm[mjNGAIN * servo], kStiffness[i]);
      EXPECT_EQ(m.actuator_biasprm[mjNBIAS * servo + 1], -kStiffness[i]);
      EXPECT_EQ(m.actuator_biasprm[mjNBIAS * servo + 2], -kStiffness[i] / 10.0);
      EXPECT_DOUBLE_EQ(m.actuator_ctrlrange[2 * servo], m.jnt_range[2 * joint]);
      EXPECT_DOUBLE_EQ(m.actuator_ctrlrange[2 * servo + 1], m.jnt_range[2 * joint + 1]);
    }
  }
  EXPECT_EQ(m.jnt_actfrcrange[2 * model.Joint("zhead_1_joint") + 1], 1.5);
  EXPECT_EQ(m.jnt_actfrcrange[2 * model.Joint("zhead_2_joint") + 1], 12.0);
}

/// The torque that gravity needs at the joints of an arm [Nm], from the tables alone.
ArmAngles GravityLoad(Side side, const std::array<LinkFacts, kNumArmJoints>& arm,
                      const ArmAngles& angles) {
  const std::array<Frame, kNumArmJoints> frames = ForwardKinematics(side, angles);
  ArmAngles load = {};
  const auto add_weight = [&](std::size_t link, double mass, const Vec3& com) {
    const Vec3 point = Add(frames[link].position, Rotate(frames[link].rotation, com));
    for (std::size_t i = 0; i <= link; ++i) {
      // torque about the joint's axis that balances the weight: axis . (lever x (0, 0, m g))
      const Vec3 axis = Rotate(frames[i].rotation, arm[i].axis);
      const double x = point[0] - frames[i].position[0];
      const double y = point[1] - frames[i].position[1];
      load[i] += mass * kGravity * (axis[0] * y - axis[1] * x);
    }
  };
  for (std::size_t i = 0; i < kNumArmJoints; ++i) add_weight(i, arm[i].mass, arm[i].com);
  add_weight(kNumArmJoints - 1, 0.777441, kGripperBaseCom);
  add_weight(kNumArmJoints - 1, kGripperMass - 0.777441, {0, 0, -0.1288});  // both open fingers
  return load;
}

constexpr ArmAngles kForward = {-90 * kDegree, 0, 0, 0, 0, 0, 0};  // straight ahead, horizontal

TEST(KuavoScene, GravityLoadIsThatOfTheTables) {
  const KuavoModel model = LoadScene();
  const mjModel& m = *model.model();
  const mujoco::DataPtr data = model.MakeData();
  for (const Side side : kSides) {
    for (const ArmAngles& angles : {kHome[Index(side)], kForward}) {
      for (std::size_t i = 0; i < kNumArmJoints; ++i) {
        data->qpos[model.arm(side).qpos[i]] = angles[i];
      }
      mj_forward(&m, data.get());
      const ArmAngles wanted = GravityLoad(side, ArmFacts(side), angles);
      for (std::size_t i = 0; i < kNumArmJoints; ++i) {
        const int dof = model.arm(side).dof[i];
        EXPECT_NEAR(data->qfrc_bias[dof], wanted[i], 2e-3) << LinkName(side, i);
        EXPECT_LT(std::abs(wanted[i]), 0.6 * kLeftArm[i].torque) << LinkName(side, i);
      }
    }
  }
}

TEST(KuavoScene, WithADexterousHandUnderTheWristGravityLoadIsTheSimulators) {
  // theirs carries the hand, 0.64 kg with link 7, and the gripper below it
  std::array<LinkFacts, kNumArmJoints> arm = ArmFacts(Side::kLeft);
  arm[6].mass = 0.640;
  arm[6].com = {0.00186, 0.01014, -0.09044};
  constexpr ArmAngles kForwardLoad = {18.6, 0, 0.1, 6.9, 0.1, 0, 1.0};
  constexpr ArmAngles kHomeLoad = {1.4, 0, 0, 6.8, 0, 1.2, 0};
  const ArmAngles forward = GravityLoad(Side::kLeft, arm, kForward);
  const ArmAngles home = GravityLoad(Side::kLeft, arm, kHome[0]);
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    EXPECT_NEAR(std::abs(forward[i]), kForwardLoad[i], 0.2) << LinkName(Side::kLeft, i);
    EXPECT_NEAR(std::abs(home[i]), kHomeLoad[i], 0.2) << LinkName(Side::kLeft, i);
  }
}

TEST(KuavoScene, ArmsHoldStillWithoutSagging) {
  const KuavoModel model = LoadScene();
  const mujoco::DataPtr data = model.MakeData();
  for (const Side side : kSides) {
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      data->qpos[model.arm(side).qpos[i]] = kForward[i];
      data->ctrl[model.arm(side).actuator[i]] = kForward[i];
    }
  }
  for (int step = 0; step < 500; ++step) mj_step(model.model(), data.get());
  for (const Side side : kSides) {
    for (std::size_t i = 0; i < kNumArmJoints; ++i) {
      EXPECT_NEAR(data->qpos[model.arm(side).qpos[i]], kForward[i], 1e-9) << LinkName(side, i);
    }
  }
}

TEST(KuavoScene, PhysicsSettingsAreTheSimulators) {
  for (const char* scene : kTaskScenes) {
    const KuavoModel model = LoadScene(scene);
    const mjOption& option = model.model()->opt;
    EXPECT_EQ(option.timestep, 0.002);
    EXPECT_EQ(option.cone, mjCONE_ELLIPTIC);
    EXPECT_EQ(option.impratio, 10.0);
    EXPECT_EQ(option.integrator, mjINT_IMPLICITFAST);
    EXPECT_TRUE(option.disableflags & mjDSBL_AUTORESET) << "a diverged episode must be reported";
  }
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
