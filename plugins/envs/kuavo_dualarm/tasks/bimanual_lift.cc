#include "bimanual_lift.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::kuavo_dualarm {
namespace {

// The tray's frame is in the middle of its box of 0.20 x 0.28 x 0.04 m, with walls of 6 mm and a
// floor of 5 mm.
constexpr double kTrayHalfHeight = 0.02;
constexpr double kFloorTop = -0.015;
constexpr double kInsideX = 0.094;
constexpr double kInsideY = 0.134;
constexpr double kInsideZ = 0.03;  // largest height of the load's centre
constexpr double kLoadHalf = 0.015;

constexpr double kRise = 0.10;      // [m]
constexpr double kHalfRise = 0.05;  // [m] gives the second reward stage
constexpr double kMaxTilt = 12 * kDegree;
constexpr int kDwellSteps = 10;

constexpr Range kTrayX = {0.32, 0.38};
constexpr Range kTrayY = {-0.02, 0.02};
constexpr Range kTrayYaw = {-8 * kDegree, 8 * kDegree};
constexpr Range kLoadX = {-0.05, 0.05};  // in the tray's frame
constexpr Range kLoadY = {-0.08, 0.08};
constexpr Range kLoadYaw = {-45 * kDegree, 45 * kDegree};

}  // namespace

BimanualLiftTask::BimanualLiftTask(const KuavoModel& model)
    : model_(model),
      tray_(model, "tray"),
      load_(model, "load"),
      ear_geom_({model.Geom("tray_ear_l"), model.Geom("tray_ear_r")}) {}

std::span<const MetricSpec> BimanualLiftTask::metrics() const {
  static const std::array<MetricSpec, 2> metrics = {
      MetricSpec{"lift_height", Aggregate::kMax},  // [m] of the tray
      MetricSpec{"tilt", Aggregate::kMax}          // [rad] of the tray
  };
  return metrics;
}

void BimanualLiftTask::Start(RandomStream& random, double spread, mjData& data) {
  const double x = Draw(random, kTrayX, spread);
  const double y = Draw(random, kTrayY, spread);
  const double yaw = Draw(random, kTrayYaw, spread);
  PlaceFreeBody(data, tray_.qpos, {x, y, kTableTop + kTrayHalfHeight}, yaw);

  // the load starts on the tray's floor
  const double load_x = Draw(random, kLoadX, spread);
  const double load_y = Draw(random, kLoadY, spread);
  const double load_yaw = Draw(random, kLoadYaw, spread);
  PlaceFreeBody(data, load_.qpos,
                {x + std::cos(yaw) * load_x - std::sin(yaw) * load_y,
                 y + std::sin(yaw) * load_x + std::cos(yaw) * load_y,
                 kTableTop + kTrayHalfHeight + kFloorTop + kLoadHalf},
                yaw + load_yaw);
  lifted_steps_ = 0.0;
}

bool BimanualLiftTask::LoadInside(const mjData& data) const {
  const std::array<double, 3> in_tray = PositionIn(data, tray_.body, load_.Position(data));
  return std::abs(in_tray[0]) < kInsideX && std::abs(in_tray[1]) < kInsideY &&
         in_tray[2] > kFloorTop && in_tray[2] < kInsideZ;
}

bool BimanualLiftTask::Held(const mjData& data) const {
  return std::all_of(kSides.begin(), kSides.end(), [&](Side side) {
    const int ear = ear_geom_[Index(side)];
    return model_.PadTouches(data, side, 0, ear) && model_.PadTouches(data, side, 1, ear);
  });
}

TaskOutcome BimanualLiftTask::Evaluate(const mjData& data) {
  const double rise = tray_.Position(data)[2] - (kTableTop + kTrayHalfHeight);
  const double tilt = std::acos(std::clamp(tray_.Rotation(data)[8], -1.0, 1.0));
  const bool held = Held(data);
  const bool lifted = held && rise >= kRise && tilt < kMaxTilt && LoadInside(data);
  lifted_steps_ = lifted ? lifted_steps_ + 1.0 : 0.0;

  metric_values_ = {rise, tilt};
  const bool success = lifted_steps_ >= kDwellSteps;
  const double reward = success ? 1.0 : held && rise > kHalfRise ? 0.6 : held ? 0.3 : 0.0;
  return {.reward = reward, .success = success};
}

void BimanualLiftTask::WriteEnvironmentState(const mjData& data, std::span<float> out) const {
  out = WritePose(data, tray_, out);
  WriteNumbers(load_.Position(data), out);
}

}  // namespace dp_bench::kuavo_dualarm
