// The robot in numbers, independent of scenes/kuavo: from the URDF of biped_s45 and the simulator
// of the Kuavo data challenge. Offsets [m], angles [rad], masses [kg], inertias [kg m^2] about the
// centre of mass in link axes, torques [Nm].
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "kuavo_model.h"

namespace dp_bench::kuavo_dualarm {

using Vec3 = std::array<double, 3>;
using Mat3 = std::array<double, 9>;  // row major

struct LinkFacts {
  Vec3 offset;
  Vec3 axis;
  double low;
  double high;
  double torque;
  double mass;
  Vec3 com;
  Vec3 inertia;   // xx, yy, zz
  Vec3 products;  // xy, xz, yz
};

/// The left arm. Link 7 is the bare wrist; the gripper is a separate body.
inline constexpr std::array<LinkFacts, kNumArmJoints> kLeftArm = {{
    {{-0.01750, 0.29270, 0.42450},
     {0, 1, 0},
     -3.14159,
     1.57080,
     100,
     0.962,
     {-0.00083, -0.02218, 0.00035},
     {0.00225, 0.00099, 0.00227},
     {-3e-5, 0, -2e-5}},
    {{0, 0, 0},
     {1, 0, 0},
     -0.34907,
     2.09440,
     50,
     0.570,
     {-0.00791, 0, -0.04655},
     {0.00163, 0.00211, 0.00122},
     {0, 5e-5, 0}},
    {{0, 0, 0},
     {0, 0, 1},
     -1.57080,
     1.57080,
     39,
     1.650,
     {0.00628, 0.00107, -0.20878},
     {0.00815, 0.00828, 0.00206},
     {-4e-5, 8.5e-4, 1.4e-4}},
    {{0.0200, 0, -0.28370},
     {0, 1, 0},
     -2.61799,
     0,
     50,
     0.429,
     {-0.01611, 0.00143, -0.04857},
     {0.00135, 0.00114, 0.00083},
     {0, -1e-4, 0}},
    {{-0.0200, 0, -0.127037},
     {0, 0, 1},
     -1.57080,
     1.57080,
     12,
     0.610,
     {-0.00207, 0.00018, -0.05079},
     {0.00107, 0.00146, 0.00083},
     {0, -4e-5, 0}},
    {{0.0002, 0, -0.106463},
     {1, 0, 0},
     -1.30900,
     0.69813,
     12,
     0.331,
     {-0.00111, 0.00335, -0.01335},
     {0.00022, 0.00027, 0.00028},
     {0, 0, 0}},
    {{0, 0, -0.0210005},
     {0, 1, 0},
     -0.69813,
     0.69813,
     12,
     0.15,
     {0, 0, -0.02},
     {1e-4, 1e-4, 1e-4},
     {0, 0, 0}},
}};

/// The right arm mirrors the left one in y, except for fractions of a millimetre in links 6 and 7.
inline std::array<LinkFacts, kNumArmJoints> ArmFacts(Side side) {
  std::array<LinkFacts, kNumArmJoints> arm = kLeftArm;
  if (side == Side::kLeft) return arm;
  for (LinkFacts& link : arm) {
    link.offset[1] = -link.offset[1];
    link.com[1] = -link.com[1];
    link.products[0] = -link.products[0];
    link.products[2] = -link.products[2];
  }
  arm[1].low = -2.09440;
  arm[1].high = 0.34907;
  arm[5].low = -0.69813;
  arm[5].high = 1.30900;
  arm[5].offset[0] = 0.0;
  arm[6].offset[2] = -0.0210;
  return arm;
}

inline constexpr double kBaseHeight = 0.825;
inline constexpr Vec3 kPinchInLink7 = {0, 0, -0.1488};
inline constexpr double kGripperMass = 0.900;
inline constexpr Vec3 kGripperBaseCom = {0, 0, -0.0393};  // in link 7

inline constexpr std::array<const char*, 4> kTaskScenes = {"pick_place", "bimanual_lift",
                                                           "weigh_relay", "conveyor_pick"};

inline KuavoModel LoadScene(const std::string& name = kTaskScenes[0]) {
  return KuavoModel(mujoco::FindScene("kuavo/" + name + ".xml", DPB_SOURCE_DIR "/scenes"));
}

inline std::string LinkName(Side side, std::size_t i) {
  return std::string("zarm_") + (side == Side::kLeft ? "l" : "r") + std::to_string(i + 1) + "_link";
}

inline Vec3 Row(const double* numbers, int row) {
  return {numbers[3 * row], numbers[3 * row + 1], numbers[3 * row + 2]};
}

inline void ExpectNear(const Vec3& found, const Vec3& wanted, double tolerance,
                       const std::string& what) {
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(found[i], wanted[i], tolerance) << what << ", component " << i;
  }
}

inline Vec3 Add(const Vec3& a, const Vec3& b) { return {a[0] + b[0], a[1] + b[1], a[2] + b[2]}; }

inline Vec3 Rotate(const Mat3& r, const Vec3& v) {
  return {r[0] * v[0] + r[1] * v[1] + r[2] * v[2], r[3] * v[0] + r[4] * v[1] + r[5] * v[2],
          r[6] * v[0] + r[7] * v[1] + r[8] * v[2]};
}

inline Mat3 Multiply(const Mat3& a, const Mat3& b) {
  Mat3 product = {};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      for (std::size_t k = 0; k < 3; ++k) product[3 * i + j] += a[3 * i + k] * b[3 * k + j];
    }
  }
  return product;
}

/// Rotation about the x, y or z axis.
inline Mat3 RotationAbout(const Vec3& axis, double angle) {
  const double c = std::cos(angle);
  const double s = std::sin(angle);
  if (axis[0] == 1.0) return {1, 0, 0, 0, c, -s, 0, s, c};
  if (axis[1] == 1.0) return {c, 0, s, 0, 1, 0, -s, 0, c};
  return {c, -s, 0, s, c, 0, 0, 0, 1};
}

struct Frame {
  Vec3 position;
  Mat3 rotation;
};

using ArmAngles = std::array<double, kNumArmJoints>;

/// The frames of all links of an arm in the world.
inline std::array<Frame, kNumArmJoints> ForwardKinematics(Side side, const ArmAngles& angles) {
  std::array<Frame, kNumArmJoints> frames = {};
  Frame frame = {{0, 0, kBaseHeight}, {1, 0, 0, 0, 1, 0, 0, 0, 1}};
  const std::array<LinkFacts, kNumArmJoints> arm = ArmFacts(side);
  for (std::size_t i = 0; i < kNumArmJoints; ++i) {
    frame.position = Add(frame.position, Rotate(frame.rotation, arm[i].offset));
    frame.rotation = Multiply(frame.rotation, RotationAbout(arm[i].axis, angles[i]));
    frames[i] = frame;
  }
  return frames;
}

}  // namespace dp_bench::kuavo_dualarm
