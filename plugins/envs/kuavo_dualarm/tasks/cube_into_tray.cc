#include "cube_into_tray.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kTrayHalfInside = 0.07;  // [m]
constexpr double kLift = 0.05;            // [m] above the cube's start height
constexpr double kInTrayBelow = 0.80;     // [m] height of the cube's centre
constexpr double kStillBelow = 0.02;      // [m/s]
constexpr double kOpenBelow = 0.3;        // closure of the gripper
constexpr int kDwellSteps = 5;

constexpr Range kCubeYaw = {-45 * kDegree, 45 * kDegree};
constexpr Range kTrayX = {0.28, 0.33};

}  // namespace

CubeIntoTrayTask::CubeIntoTrayTask(const KuavoModel& model, const CubeAndTray& start)
    : model_(model),
      start_(start),
      cube_(model, "cube"),
      cube_geom_(model.Geom("cube_geom")),
      tray_(model.Body("tray")),
      tray_mocap_(model.MocapOf("tray")) {}

std::vector<MetricSpec> CubeIntoTrayTask::metrics() const {
  return {{"lift_height", Aggregate::kMax},      // [m] of the cube
          {"tray_distance", Aggregate::kLast}};  // [m] cube to the tray's centre, horizontally
}

void CubeIntoTrayTask::Start(RandomStream& random, double spread, mjData& data) {
  const double cube_x = Draw(random, start_.cube_x, spread);
  const double cube_y = Draw(random, start_.cube_y, spread);
  const double cube_yaw = Draw(random, kCubeYaw, spread);
  PlaceFreeBody(data, cube_.qpos, {cube_x, cube_y, start_.cube_height}, cube_yaw);
  PlaceOnTable(data, tray_mocap_, random, kTrayX, start_.tray_y, spread);
  placed_steps_ = 0.0;
}

StepResult CubeIntoTrayTask::Evaluate(const mjData& data) {
  const double height = cube_.Position(data)[2];
  const std::array<double, 3> in_tray = PositionIn(data, tray_, cube_.Position(data));
  const bool over_tray = std::max(std::abs(in_tray[0]), std::abs(in_tray[1])) < kTrayHalfInside;
  const bool released = model_.GripperClosure(data, Side::kRight) < kOpenBelow &&
                        !model_.AnyPadTouches(data, Side::kRight, cube_geom_);
  const bool placed =
      over_tray && height < kInTrayBelow && released && cube_.Speed(data) < kStillBelow;
  placed_steps_ = placed ? placed_steps_ + 1.0 : 0.0;

  const double lift = height - start_.cube_height;
  metric_values_ = {lift, std::hypot(in_tray[0], in_tray[1])};
  const bool success = placed_steps_ >= kDwellSteps;
  // the cube can enter the tray only over its wall
  const double reward = success ? 1.0 : over_tray ? 0.6 : lift > kLift ? 0.3 : 0.0;
  return {.reward = reward, .success = success, .metrics = metric_values_};
}

void CubeIntoTrayTask::WriteEnvironmentState(const mjData& data, std::span<float> out) const {
  out = WritePose(data, cube_, out);
  WriteNumbers({data.xpos + 3 * tray_, 2}, out);
}

CubeIntoTrayScript::CubeIntoTrayScript(const KuavoModel& model)
    : tray_(model.Body("tray")),
      cube_(model.Geom("cube_geom")),
      hand_(model, Side::kRight, cube_) {}

bool CubeIntoTrayScript::IsInTray(const SceneView& scene) const {
  const double* tray = &scene.data.xpos[3 * tray_];
  const double* cube = CubePosition(scene);
  return std::abs(cube[0] - tray[0]) < kTrayHalfInside &&
         std::abs(cube[1] - tray[1]) < kTrayHalfInside && cube[2] < kInTrayBelow;
}

ArmGoals CubeIntoTrayScript::Plan(const SceneView& scene) {
  constexpr double kTrayHeight = 0.03;  // of the walls [m]
  constexpr double kClearance = 0.006;  // from the cube to the top of the walls at release [m]
  const double* tray = &scene.data.xpos[3 * tray_];
  const PlaceTarget target = {tray[0], tray[1], kTableTop + kTrayHeight + kClearance};
  return {ArmGoal{}, hand_.Plan(scene, target, IsInTray(scene))};
}

}  // namespace dp_bench::kuavo_dualarm
