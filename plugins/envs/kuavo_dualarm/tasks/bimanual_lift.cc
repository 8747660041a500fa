// bimanual_lift: both hands lift a tray by its ears and keep the load inside.
#include <algorithm>
#include <array>
#include <cmath>

#include "dp_bench/plugin.h"
#include "expert/script.h"
#include "placement.h"
#include "task.h"

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

/// Solved when, for 10 steps in a row, the tray is raised by 10 cm and tilted by less than 12
/// degrees, the load is inside, and both pads of both hands touch their ear. Reward: 0.3 both ears
/// held, 0.6 held and raised by 5 cm, 1 solved. environment_state: pose of the tray (9), position
/// of the load (3).
class BimanualLiftTask final : public Task {
 public:
  BimanualLiftTask(const KuavoModel& model, const TaskSettings& /*settings*/)
      : model_(model),
        tray_(model, "tray"),
        load_(model, "load"),
        ear_geom_({model.Geom("tray_ear_l"), model.Geom("tray_ear_r")}) {}

  int max_steps() const override { return 150; }
  std::vector<MetricSpec> metrics() const override {
    return {{"lift_height", Aggregate::kMax},  // [m] of the tray
            {"tilt", Aggregate::kMax}};        // [rad] of the tray
  }
  std::size_t environment_state_size() const override { return kPoseSize + 3; }
  std::span<double> counters() override { return {&lifted_steps_, 1}; }

  void Start(RandomStream& random, double spread, mjData& data) override {
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

  StepResult Evaluate(const mjData& data) override {
    const double rise = tray_.Position(data)[2] - (kTableTop + kTrayHalfHeight);
    const double tilt = std::acos(std::clamp(tray_.Rotation(data)[8], -1.0, 1.0));
    const bool held = Held(data);
    const bool lifted = held && rise >= kRise && tilt < kMaxTilt && LoadInside(data);
    lifted_steps_ = lifted ? lifted_steps_ + 1.0 : 0.0;

    metric_values_ = {rise, tilt};
    const bool success = lifted_steps_ >= kDwellSteps;
    const double reward = success ? 1.0 : held && rise > kHalfRise ? 0.6 : held ? 0.3 : 0.0;
    return {.reward = reward, .success = success, .metrics = metric_values_};
  }

  void WriteEnvironmentState(const mjData& data, std::span<float> out) const override {
    out = WritePose(data, tray_, out);
    WriteNumbers(load_.Position(data), out);
  }

 private:
  bool LoadInside(const mjData& data) const {
    const std::array<double, 3> in_tray = PositionIn(data, tray_.body, load_.Position(data));
    return std::abs(in_tray[0]) < kInsideX && std::abs(in_tray[1]) < kInsideY &&
           in_tray[2] > kFloorTop && in_tray[2] < kInsideZ;
  }

  bool Held(const mjData& data) const {
    return std::all_of(kSides.begin(), kSides.end(), [&](Side side) {
      const int ear = ear_geom_[Index(side)];
      return model_.PadTouches(data, side, 0, ear) && model_.PadTouches(data, side, 1, ear);
    });
  }

  const KuavoModel& model_;
  FreeBody tray_;
  FreeBody load_;
  std::array<int, kNumSides> ear_geom_;
  double lifted_steps_ = 0.0;
  std::array<double, 2> metric_values_ = {};
};

// of the script
constexpr double kPassDistance = 0.02;  // to a via point [m]
constexpr double kPassAngle = 10.0 * kDegree;
constexpr double kArriveDistance = 0.010;  // to the ears [m]
constexpr double kArriveAngle = 8.0 * kDegree;
constexpr double kLevelDistance = 0.01;  // between the heights of the two hands' rises [m]
constexpr double kLead = 0.04;  // how far the command is ahead of the lower hand while lifting [m]
constexpr int kPatience = 25;   // steps after which a stage counts as stuck

// closure of a gripper on an ear of 10 mm
constexpr double kOpenEnough = 0.25;
constexpr double kMissed = 0.95;
constexpr double kHolding = 0.80;
constexpr double kStill = 0.01;  // change of the fingers per step when they are at rest

class BimanualLiftScript final : public Script {
 public:
  explicit BimanualLiftScript(const KuavoModel& model)
      : tray_(model.Body("tray")), ears_({model.Geom("tray_ear_l"), model.Geom("tray_ear_r")}) {}

  void Begin(RandomStream& random) override {
    pitch_ = DrawBetween(random, 27.0, 33.0) * kDegree;
    behind_ = DrawBetween(random, 0.07, 0.09);
    grasp_height_ = DrawBetween(random, -0.006, 0.006);
    grasp_forward_ = DrawBetween(random, -0.004, 0.004);
    lift_height_ = DrawBetween(random, 0.125, 0.145);
    has_started_ = false;
    steps_in_stage_ = 0;
    previous_closure_ = {};
  }

  ArmGoals Plan(const SceneView& scene) override {
    if (!has_started_) Start(scene);
    // the tray may have moved, so measure again until the fingers close
    if (stage_ == Stage::kReach || stage_ == Stage::kSlide) FindGrasps(scene.data);

    const Stage next = NextStage(scene);
    ++steps_in_stage_;
    if (next != stage_) {
      stage_ = next;
      steps_in_stage_ = 0;
    }
    for (const Side side : kSides) previous_closure_[Index(side)] = Hand(scene, side).closure;
    return {GoalOf(scene, Side::kLeft), GoalOf(scene, Side::kRight)};
  }

 private:
  enum class Stage { kReach, kSlide, kClose, kLift };

  /// After a takeover, the hands may hold the tray already.
  void Start(const SceneView& scene) {
    has_started_ = true;
    FindGrasps(scene.data);
    const bool are_at_ears = AreNear(scene, approach_, 0.0, kPassDistance, kPassAngle);
    stage_ = are_at_ears && AreHolding(scene) ? Stage::kLift : Stage::kReach;
  }

  static const HandState& Hand(const SceneView& scene, Side side) {
    return scene.hands[Index(side)];
  }

  void FindGrasps(const mjData& data) {
    const double* tray = &data.xmat[9 * tray_];
    const double yaw = std::atan2(tray[3], tray[0]);
    approach_ = ApproachDirection(yaw, pitch_);
    for (const Side side : kSides) {
      const double* ear = &data.geom_xpos[3 * ears_[Index(side)]];
      grasps_[Index(side)] = {
          .position = {ear[0] + grasp_forward_ * std::cos(yaw),
                       ear[1] + grasp_forward_ * std::sin(yaw), ear[2] + grasp_height_},
          .rotation = GraspRotation(side, yaw, pitch_)};
    }
  }

  /// Whether both hands are near their grasps, moved by `scale` along `direction`.
  bool AreNear(const SceneView& scene, const Vector3& direction, double scale, double distance,
               double angle) const {
    return std::all_of(kSides.begin(), kSides.end(), [&](Side side) {
      return IsNear(Hand(scene, side).pinch, Shifted(grasps_[Index(side)], direction, scale),
                    distance, angle);
    });
  }

  template <class Predicate>
  static bool Both(const SceneView& scene, const Predicate& is_true) {
    return std::all_of(kSides.begin(), kSides.end(),
                       [&](Side side) { return is_true(side, Hand(scene, side).closure); });
  }

  static bool AreHolding(const SceneView& scene) {
    return Both(scene,
                [](Side, double closure) { return closure > kHolding && closure < kMissed; });
  }

  Stage NextStage(const SceneView& scene) const {
    const bool is_stuck = steps_in_stage_ >= kPatience;
    switch (stage_) {
      case Stage::kReach: {
        const bool are_open =
            Both(scene, [](Side, double closure) { return closure < kOpenEnough; });
        return are_open && AreNear(scene, approach_, -behind_, kPassDistance, kPassAngle)
                   ? Stage::kSlide
                   : stage_;
      }
      case Stage::kSlide:
        if (AreNear(scene, approach_, 0.0, kArriveDistance, kArriveAngle)) return Stage::kClose;
        return is_stuck ? Stage::kReach : stage_;
      case Stage::kClose: {
        const bool are_still = Both(scene, [&](Side side, double closure) {
          return std::abs(closure - previous_closure_[Index(side)]) < kStill;
        });
        if (are_still && AreHolding(scene)) return Stage::kLift;
        return is_stuck ? Stage::kReach : stage_;
      }
      case Stage::kLift:
        return AreHolding(scene) ? stage_ : Stage::kReach;
    }
    return stage_;
  }

  ArmGoal GoalOf(const SceneView& scene, Side side) const {
    using Path = ArmGoal::Path;
    const Pose& grasp = grasps_[Index(side)];
    switch (stage_) {
      case Stage::kReach:
        return {Path::kByJoints, Shifted(grasp, approach_, -behind_), 0.0};
      case Stage::kSlide:
        return {Path::kByLine, grasp, 0.0};
      case Stage::kClose:
        return {Path::kByLine, grasp, 1.0};
      case Stage::kLift:
        break;
    }
    return {Path::kByLine, Shifted(grasp, {0, 0, 1}, CommandedRise(scene)), 1.0};
  }

  /// One height for both hands, just ahead of the lower one. If they are no longer level, the
  /// higher one waits.
  double CommandedRise(const SceneView& scene) const {
    std::array<double, kNumSides> rise;
    for (const Side side : kSides) {
      rise[Index(side)] = Hand(scene, side).pinch.position[2] - grasps_[Index(side)].position[2];
    }
    const auto [low, high] = std::minmax(rise[0], rise[1]);
    const double lead = high - low > kLevelDistance ? kLevelDistance : kLead;
    return std::min(lift_height_, std::max(0.0, low) + lead);
  }

  int tray_;
  std::array<int, kNumSides> ears_;

  // variation between episodes
  double pitch_ = 0.0;          // of the approach, below the horizontal [rad]
  double behind_ = 0.0;         // distance of the slide's start from the ears [m]
  double grasp_height_ = 0.0;   // pinch points above the middle of the ears [m]
  double grasp_forward_ = 0.0;  // pinch points beyond the middle of the ears [m]
  double lift_height_ = 0.0;    // [m]

  bool has_started_ = false;
  Stage stage_ = Stage::kReach;
  int steps_in_stage_ = 0;
  Vector3 approach_ = {};
  std::array<Pose, kNumSides> grasps_;  // frozen when the fingers start to close
  std::array<double, kNumSides> previous_closure_ = {};
};

}  // namespace

const TaskKind kBimanualLift = {
    "bimanual_lift", "Lift the tray with both hands and keep the load inside.",
    &CreateInstance<Task, BimanualLiftTask>, &CreateInstance<Script, BimanualLiftScript>};

}  // namespace dp_bench::kuavo_dualarm
