// The PushT world in numbers: geometry, start pose and state, as in diffusion_policy's PushTEnv
// (Chi et al. 2023, task of Florence et al. 2021). Units are pixels of a 512x512 image, x to the
// right, y down. Angles are in radians, positive from x to y.
#pragma once

#include <array>
#include <cmath>

namespace dp_bench::pusht {

struct Point {
  double x = 0.0;
  double y = 0.0;

  bool operator==(const Point&) const = default;
};

/// An axis-parallel box in the block's own frame, by two opposite corners.
struct Box {
  Point low;
  Point high;
};

inline double Distance(const Point& a, const Point& b) { return std::hypot(a.x - b.x, a.y - b.y); }

/// Clockwise from `low`.
inline std::array<Point, 4> CornersOf(const Box& box) {
  return {box.low, Point{box.high.x, box.low.y}, box.high, Point{box.low.x, box.high.y}};
}

/// Position of the block's origin (the middle of the bar's top edge) and its angle, which is not
/// wrapped.
struct Pose {
  double x = 0.0;
  double y = 0.0;
  double angle = 0.0;
};

/// The frame of a body at a pose. Recorded episodes replay exactly, so the order of the terms
/// counts.
struct Frame {
  Frame() = default;
  explicit Frame(const Pose& pose)
      : origin{pose.x, pose.y}, cos(std::cos(pose.angle)), sin(std::sin(pose.angle)) {}

  Point Rotated(const Point& p) const { return {cos * p.x - sin * p.y, sin * p.x + cos * p.y}; }
  Point ToWorld(const Point& p) const {
    return {origin.x + cos * p.x - sin * p.y, origin.y + sin * p.x + cos * p.y};
  }
  Point ToLocal(const Point& p) const {
    const double dx = p.x - origin.x;
    const double dy = p.y - origin.y;
    return {cos * dx + sin * dy, cos * dy - sin * dx};
  }

  Point origin;
  double cos = 1.0;
  double sin = 0.0;
};

inline Point MovedBy(const Point& p, const Point& velocity, double seconds) {
  return {p.x + velocity.x * seconds, p.y + velocity.y * seconds};
}

inline constexpr double kWorldSize = 512.0;
inline constexpr double kPi = 3.141592653589793;

/// `angle` in [0, 2 pi): the remainder with the sign of the divisor, like Python's %.
inline double WrapAngle(double angle) {
  const double rest = std::fmod(angle, 2.0 * kPi);
  return rest < 0.0 ? rest + 2.0 * kPi : rest;
}

/// The T: a bar of 120x30 and a stem of 30x90 below it.
inline constexpr std::array<Box, 2> kBlockBoxes = {
    Box{{-60.0, 0.0}, {60.0, 30.0}},
    Box{{-15.0, 30.0}, {15.0, 120.0}},
};
inline constexpr double kBlockArea = 120.0 * 30.0 + 30.0 * 90.0;  // [px^2]

/// Centre of gravity in the block's frame. As in the peers, it is the mean of the two boxes'
/// centres, which is not the centroid of the T.
inline constexpr Point kBlockCog = {0.0, 45.0};

inline constexpr Pose kGoalPose = {256.0, 256.0, kPi / 4.0};
inline constexpr double kAgentRadius = 15.0;

/// Walls: the centre lines of four capsules, along the square with these two corners.
inline constexpr double kWallLow = 5.0;
inline constexpr double kWallHigh = 506.0;
inline constexpr double kWallRadius = 2.0;

/// Everything that determines the task's future.
struct PushtState {
  Point agent;
  Point agent_velocity;  // [px/s]
  Pose block;
  Pose block_velocity;  // of the centre of gravity [px/s], and [rad/s]; see PushtPhysics::SetSlide
};

/// x, y of the corners of a block at `pose`: first those of the bar, then those of the stem, in the
/// order of gym-pusht's environment_state.
inline std::array<double, 16> EnvironmentState(const Pose& pose) {
  const Frame block(pose);
  std::array<double, 16> numbers = {};
  std::size_t next = 0;
  for (const Box& box : kBlockBoxes) {
    for (const Point& corner : CornersOf(box)) {
      const Point turned = block.Rotated(corner);
      numbers[next++] = turned.x + pose.x;
      numbers[next++] = turned.y + pose.y;
    }
  }
  return numbers;
}

}  // namespace dp_bench::pusht
