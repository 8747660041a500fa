// bimanual_lift: both hands grip the tray by its ears and raise it together.
#include <algorithm>
#include <cmath>

#include "scripts.h"

namespace dp_bench::kuavo_dualarm {
namespace {

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

std::unique_ptr<Script> MakeBimanualLiftScript(const KuavoModel& model) {
  return std::make_unique<BimanualLiftScript>(model);
}

}  // namespace dp_bench::kuavo_dualarm
