#include "pick_place.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kCubeHalf = 0.02;        // [m]
constexpr double kTrayHalfInside = 0.07;  // [m]
constexpr double kLift = 0.05;            // [m] above the cube's start height
constexpr double kInTrayBelow = 0.80;     // [m] height of the cube's centre
constexpr double kStillBelow = 0.02;      // [m/s]
constexpr double kOpenBelow = 0.3;        // closure of the gripper
constexpr int kDwellSteps = 5;

constexpr Range kCubeX = {0.28, 0.40};
constexpr Range kCubeY = {-0.38, -0.16};
constexpr Range kCubeYaw = {-45 * kDegree, 45 * kDegree};
constexpr Range kTrayX = {0.28, 0.33};
constexpr Range kTrayY = {-0.04, 0.0};

}  // namespace

PickPlaceTask::PickPlaceTask(const KuavoModel& model)
    : model_(model),
      cube_(model, "cube"),
      cube_geom_(model.Geom("cube_geom")),
      tray_(model.Body("tray")),
      tray_mocap_(model.MocapOf("tray")) {}

std::span<const MetricSpec> PickPlaceTask::metrics() const {
  static const std::array<MetricSpec, 2> metrics = {
      MetricSpec{"lift_height", Aggregate::kMax},    // [m] of the cube
      MetricSpec{"tray_distance", Aggregate::kLast}  // [m] cube to the tray's centre, horizontally
  };
  return metrics;
}

void PickPlaceTask::Start(RandomStream& random, double spread, mjData& data) {
  const double cube_x = Draw(random, kCubeX, spread);
  const double cube_y = Draw(random, kCubeY, spread);
  const double cube_yaw = Draw(random, kCubeYaw, spread);
  PlaceFreeBody(data, cube_.qpos, {cube_x, cube_y, kTableTop + kCubeHalf}, cube_yaw);
  PlaceOnTable(data, tray_mocap_, random, kTrayX, kTrayY, spread);
  placed_steps_ = 0.0;
}

TaskOutcome PickPlaceTask::Evaluate(const mjData& data) {
  const double height = cube_.Position(data)[2];
  const std::array<double, 3> in_tray = PositionIn(data, tray_, cube_.Position(data));
  const bool over_tray = std::max(std::abs(in_tray[0]), std::abs(in_tray[1])) < kTrayHalfInside;
  const bool released = model_.GripperClosure(data, Side::kRight) < kOpenBelow &&
                        !model_.AnyPadTouches(data, Side::kRight, cube_geom_);
  const bool placed =
      over_tray && height < kInTrayBelow && released && cube_.Speed(data) < kStillBelow;
  placed_steps_ = placed ? placed_steps_ + 1.0 : 0.0;

  const double lift = height - (kTableTop + kCubeHalf);
  metric_values_ = {lift, std::hypot(in_tray[0], in_tray[1])};
  const bool success = placed_steps_ >= kDwellSteps;
  // the cube can enter the tray only over its wall
  const double reward = success ? 1.0 : over_tray ? 0.6 : lift > kLift ? 0.3 : 0.0;
  return {.reward = reward, .success = success};
}

void PickPlaceTask::WriteEnvironmentState(const mjData& data, std::span<float> out) const {
  out = WritePose(data, cube_, out);
  WriteNumbers({data.xpos + 3 * tray_, 2}, out);
}

}  // namespace dp_bench::kuavo_dualarm
