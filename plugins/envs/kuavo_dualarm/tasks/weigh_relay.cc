// weigh_relay: the right hand weighs a parcel on the scale, then the left hand brings it to the
// goal: the challenge's parcel weighing with a rigid parcel.
#include <algorithm>
#include <array>
#include <cmath>

#include "dp_bench/plugin.h"
#include "expert/pick_and_place.h"
#include "placement.h"
#include "task.h"

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

/// Weighed: the parcel rested on the scale without touching a pad, for 5 steps in a row. Solved:
/// after that it rests in the goal with both grippers open, for 5 steps in a row. Reward: 0.2
/// lifted, 0.4 weighed, 0.6 weighed and lifted by the left hand, 1 solved. The metric
/// `challenge_score` is 40 for weighed + 40 for placed + 20 for time (all 20 up to 20 s of
/// simulated time, then 1 less per second). environment_state: pose of the parcel (9), x and y of
/// the goal (2), progress of the weighing (1).
class WeighRelayTask final : public Task {
 public:
  WeighRelayTask(const KuavoModel& model, const TaskSettings& /*settings*/)
      : model_(model),
        parcel_(model, "parcel"),
        parcel_geom_(model.Geom("parcel_geom")),
        scale_(model.Body("scale")),
        goal_(model.Body("goal")),
        goal_mocap_(model.MocapOf("goal")) {}

  int max_steps() const override { return 300; }
  std::vector<MetricSpec> metrics() const override {
    return {{"challenge_score", Aggregate::kMax},  // of 100
            {"goal_distance", Aggregate::kLast}};  // [m] parcel to goal, horizontally
  }
  std::size_t environment_state_size() const override { return kPoseSize + 3; }
  std::span<double> counters() override { return counters_; }

  void Start(RandomStream& random, double spread, mjData& data) override {
    const double x = Draw(random, kParcelX, spread);
    const double y = Draw(random, kParcelY, spread);
    const double yaw = Draw(random, kParcelYaw, spread);
    PlaceFreeBody(data, parcel_.qpos, {x, y, kTableTop + kParcelHalfHeight}, yaw);
    PlaceOnTable(data, goal_mocap_, random, kGoalX, kGoalY, spread);
    counters_ = {};
  }

  StepResult Evaluate(const mjData& data) override {
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
    return {.reward = reward, .success = success, .metrics = metric_values_};
  }

  void WriteEnvironmentState(const mjData& data, std::span<float> out) const override {
    out = WritePose(data, parcel_, out);
    out = WriteNumbers({data.xpos + 3 * goal_, 2}, out);
    WriteNumbers(std::array{counters_[kWeighedSteps] / kWeighSteps}, out);
  }

 private:
  enum Counter : std::size_t { kWeighedSteps, kPlacedSteps, kNumCounters };

  bool Weighed() const { return counters_[kWeighedSteps] >= kWeighSteps; }

  bool RestsOnScale(const mjData& data) const {
    const std::array<double, 3> on_scale = PositionIn(data, scale_, parcel_.Position(data));
    const double above = on_scale[2] - kScaleTop;
    const bool touched = std::any_of(kSides.begin(), kSides.end(), [&](Side side) {
      return model_.AnyPadTouches(data, side, parcel_geom_);
    });
    return std::max(std::abs(on_scale[0]), std::abs(on_scale[1])) < kScaleHalf && above > 0.0 &&
           above < kOnScaleBelow && !touched && parcel_.Speed(data) < kStillBelow;
  }

  bool RestsInGoal(const mjData& data) const {
    const std::array<double, 3> in_goal = PositionIn(data, goal_, parcel_.Position(data));
    const bool open = std::all_of(kSides.begin(), kSides.end(), [&](Side side) {
      return model_.GripperClosure(data, side) < kOpenBelow;
    });
    return std::hypot(in_goal[0], in_goal[1]) < kGoalRadius &&
           parcel_.Position(data)[2] < kInGoalBelow && open && parcel_.Speed(data) < kStillBelow;
  }

  const KuavoModel& model_;
  FreeBody parcel_;
  int parcel_geom_;
  int scale_;
  int goal_;
  int goal_mocap_;
  std::array<double, kNumCounters> counters_ = {};
  std::array<double, 2> metric_values_ = {};
};

// of the script
constexpr double kPlacedRadius = 0.06;   // slightly less than the goal's [m]
constexpr double kClearance = 0.004;     // from the parcel to the ground at release [m]
constexpr double kHandedOver = 0.15;     // from the right hand to the parcel [m]
constexpr double kRestingHeight = 0.06;  // parcel's middle above the ground, at most [m]

class WeighRelayScript final : public Script {
 public:
  explicit WeighRelayScript(const KuavoModel& model)
      : model_(model),
        parcel_(model.Geom("parcel_geom")),
        scale_(model.Geom("scale_geom")),
        goal_(model.Body("goal")),
        right_(model, Side::kRight, parcel_),
        left_(model, Side::kLeft, parcel_) {}

  void Begin(RandomStream& random) override {
    right_.Begin(random);
    left_.Begin(random);
    is_handed_over_ = false;
  }

  ArmGoals Plan(const SceneView& scene) override {
    const double* parcel = &scene.data.geom_xpos[3 * parcel_];
    is_handed_over_ = is_handed_over_ || IsHandedOver(scene);
    if (!is_handed_over_) {
      const double* scale = &scene.data.geom_xpos[3 * scale_];
      const PlaceTarget target = {scale[0], scale[1], ScaleTop(scene.data) + kClearance};
      return {ArmGoal{}, right_.Plan(scene, target, IsOnScale(scene.data))};
    }
    const double* goal = &scene.data.xpos[3 * goal_];
    const PlaceTarget target = {goal[0], goal[1], kTableTop + kClearance};
    const bool is_there = std::hypot(parcel[0] - goal[0], parcel[1] - goal[1]) < kPlacedRadius &&
                          parcel[2] < kTableTop + kRestingHeight;
    return {left_.Plan(scene, target, is_there), ArmGoal{}};
  }

 private:
  /// The scale weighs the parcel while the right hand moves away. After a takeover, the left hand
  /// may have the parcel already.
  bool IsHandedOver(const SceneView& scene) const {
    const auto distance_to_parcel = [&](Side side) {
      const double* parcel = &scene.data.geom_xpos[3 * parcel_];
      return Distance(scene.hands[Index(side)].pinch.position, {parcel[0], parcel[1], parcel[2]});
    };
    const double from_right = distance_to_parcel(Side::kRight);
    return distance_to_parcel(Side::kLeft) < from_right ||
           (IsOnScale(scene.data) && from_right > kHandedOver);
  }

  double ScaleTop(const mjData& data) const {
    return data.geom_xpos[3 * scale_ + 2] + model_.model()->geom_size[3 * scale_ + 2];
  }

  bool IsOnScale(const mjData& data) const {
    const double* parcel = &data.geom_xpos[3 * parcel_];
    const double* scale = &data.geom_xpos[3 * scale_];
    const double* half_size = &model_.model()->geom_size[3 * scale_];
    return std::abs(parcel[0] - scale[0]) < half_size[0] &&
           std::abs(parcel[1] - scale[1]) < half_size[1] && parcel[2] > ScaleTop(data) &&
           parcel[2] < ScaleTop(data) + kRestingHeight;
  }

  const KuavoModel& model_;
  int parcel_;
  int scale_;
  int goal_;
  PickAndPlace right_;
  PickAndPlace left_;
  bool is_handed_over_ = false;
};

}  // namespace

const TaskKind kWeighRelay = {
    "weigh_relay", "Weigh the parcel on the scale, then bring it to the goal with the left hand.",
    &CreateInstance<Task, WeighRelayTask>, &CreateInstance<Script, WeighRelayScript>};

}  // namespace dp_bench::kuavo_dualarm
