#include "weigh_relay.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::kuavo_dualarm {
namespace {

constexpr double kParcelHalfHeight = 0.02;  // [m]
constexpr double kScaleHalf = 0.08;         // [m] of its square pad
constexpr double kScaleTop = 0.05;          // [m] above the table
constexpr double kOnScaleBelow = 0.05;      // [m] the parcel's centre above the pad, on any side
constexpr double kGoalRadius = 0.07;        // [m]
constexpr double kInGoalBelow = 0.80;       // [m] height of the parcel's centre
constexpr double kLift = 0.03;              // [m] less than the height of the scale
constexpr double kStillBelow = 0.02;        // [m/s]
constexpr double kOpenBelow = 0.3;          // closure of a gripper
constexpr int kWeighSteps = 5;
constexpr int kPlaceSteps = 5;
constexpr double kFullBonusTime = 20.0;  // [s]

constexpr Range kParcelX = {0.28, 0.36};
constexpr Range kParcelY = {-0.42, -0.30};
constexpr Range kParcelYaw = {-45 * kDegree, 45 * kDegree};
constexpr Range kGoalX = {0.28, 0.36};
constexpr Range kGoalY = {0.30, 0.42};

}  // namespace

WeighRelayTask::WeighRelayTask(const KuavoModel& model)
    : model_(model),
      parcel_(model, "parcel"),
      parcel_geom_(model.Geom("parcel_geom")),
      scale_(model.Body("scale")),
      goal_(model.Body("goal")),
      goal_mocap_(model.MocapOf("goal")) {}

std::span<const MetricSpec> WeighRelayTask::metrics() const {
  static const std::array<MetricSpec, 2> metrics = {
      MetricSpec{"challenge_score", Aggregate::kMax},  // of 100
      MetricSpec{"goal_distance", Aggregate::kLast}    // [m] parcel to goal, horizontally
  };
  return metrics;
}

void WeighRelayTask::Start(RandomStream& random, double spread, mjData& data) {
  const double x = Draw(random, kParcelX, spread);
  const double y = Draw(random, kParcelY, spread);
  const double yaw = Draw(random, kParcelYaw, spread);
  PlaceFreeBody(data, parcel_.qpos, {x, y, kTableTop + kParcelHalfHeight}, yaw);
  PlaceOnTable(data, goal_mocap_, random, kGoalX, kGoalY, spread);
  counters_ = {};
}

bool WeighRelayTask::Weighed() const { return counters_[kWeighedSteps] >= kWeighSteps; }

bool WeighRelayTask::RestsOnScale(const mjData& data) const {
  const std::array<double, 3> on_scale = PositionIn(data, scale_, parcel_.Position(data));
  const double above = on_scale[2] - kScaleTop;
  const bool touched = std::any_of(kSides.begin(), kSides.end(), [&](Side side) {
    return model_.AnyPadTouches(data, side, parcel_geom_);
  });
  return std::max(std::abs(on_scale[0]), std::abs(on_scale[1])) < kScaleHalf && above > 0.0 &&
         above < kOnScaleBelow && !touched && parcel_.Speed(data) < kStillBelow;
}

bool WeighRelayTask::RestsInGoal(const mjData& data) const {
  const std::array<double, 3> in_goal = PositionIn(data, goal_, parcel_.Position(data));
  const bool open = std::all_of(kSides.begin(), kSides.end(), [&](Side side) {
    return model_.GripperClosure(data, side) < kOpenBelow;
  });
  return std::hypot(in_goal[0], in_goal[1]) < kGoalRadius &&
         parcel_.Position(data)[2] < kInGoalBelow && open && parcel_.Speed(data) < kStillBelow;
}

TaskOutcome WeighRelayTask::Evaluate(const mjData& data) {
  // the weighing is remembered; the other conditions must hold at the same time
  if (!Weighed()) {
    counters_[kWeighedSteps] = RestsOnScale(data) ? counters_[kWeighedSteps] + 1.0 : 0.0;
  }
  counters_[kPlacedSteps] = Weighed() && RestsInGoal(data) ? counters_[kPlacedSteps] + 1.0 : 0.0;
  const bool success = counters_[kPlacedSteps] >= kPlaceSteps;

  const double lift = parcel_.Position(data)[2] - (kTableTop + kParcelHalfHeight);
  const bool left_lifts =
      lift > kScaleTop + kLift && model_.AnyPadTouches(data, Side::kLeft, parcel_geom_);
  const double weighed_reward = left_lifts ? 0.6 : 0.4;
  const double reward = success ? 1.0 : Weighed() ? weighed_reward : lift > kLift ? 0.2 : 0.0;

  const double in_time = std::clamp(20.0 - (data.time - kFullBonusTime), 0.0, 20.0);
  const std::array<double, 3> in_goal = PositionIn(data, goal_, parcel_.Position(data));
  metric_values_ = {(Weighed() ? 40.0 : 0.0) + (success ? 40.0 + in_time : 0.0),
                    std::hypot(in_goal[0], in_goal[1])};
  return {.reward = reward, .success = success};
}

void WeighRelayTask::WriteEnvironmentState(const mjData& data, std::span<float> out) const {
  out = WritePose(data, parcel_, out);
  out = WriteNumbers({data.xpos + 3 * goal_, 2}, out);
  WriteNumbers(std::array{counters_[kWeighedSteps] / kWeighSteps}, out);
}

}  // namespace dp_bench::kuavo_dualarm
