// The stages, and the measurements that move it from one stage to the next.
#include "pick_and_place.h"

#include <algorithm>
#include <cmath>

namespace dp_bench::kuavo_dualarm {
namespace {

// when a hand has arrived: at a via point, and at a grasp or release
constexpr double kPassDistance = 0.025;  // [m]
constexpr double kPassAngle = 12.0 * kDegree;
constexpr double kArriveDistance = 0.010;  // [m]
constexpr double kArriveAngle = 8.0 * kDegree;

constexpr double kLostDistance = 0.045;  // from box to pinch point: the box is not in the hand [m]
constexpr double kAwayDistance = 0.06;   // from hand to grasp, while descending [m]
constexpr double kLead = 0.25;           // the hand is behind its goal by so much [s]
constexpr int kPatience = 25;            // steps after which a stage counts as stuck

constexpr double kGap = 2.0 * kFingerTravel;  // between the pads of an open gripper [m]
constexpr double kRoom = 0.018;       // beside the box on each side, if there is a choice [m]
constexpr double kSqueeze = 0.17;     // commanded closure beyond first contact
constexpr double kMissed = 0.08;      // closed further than the box's width
constexpr double kStill = 0.01;       // change of closure per step when the fingers are at rest
constexpr double kOpenEnough = 0.25;  // closure

/// The shoulder's distance from the middle of the robot [m].
constexpr double kShoulderY = 0.2927;

/// The approach direction that an arm reaches best, halfway between its extremes: outwards from the
/// shoulder, turned inwards. Fitted to the reach of the inverse kinematics over the table: at least
/// 45 degrees to either side.
double PreferredYaw(Side side, double x, double y) {
  const double sign = side == Side::kRight ? 1.0 : -1.0;
  const double heading = std::atan2(sign * y + kShoulderY, x);  // inwards positive
  const double slope = heading > 0.0 ? 1.4 : 0.7;
  return sign * std::min(slope * heading + 12.0 * kDegree, 50.0 * kDegree);
}

}  // namespace

PickAndPlace::PickAndPlace(const KuavoModel& model, Side side, int box)
    : model_(model), side_(side), box_(box) {}

void PickAndPlace::Begin(RandomStream& random) {
  variation_ = {
      .pitch = DrawBetween(random, 42.0, 48.0) * kDegree,
      .hover_height = DrawBetween(random, 0.09, 0.12),
      .grasp_height = DrawBetween(random, 0.002, 0.008),
      .grasp_forward = DrawBetween(random, -0.004, 0.004),
      .carry_height = DrawBetween(random, 0.135, 0.155),
      .place_x = DrawBetween(random, -0.010, 0.010),
      .place_y = DrawBetween(random, -0.010, 0.010),
      .place_yaw = DrawBetween(random, -6.0, 6.0) * kDegree,
      .retreat_height = DrawBetween(random, 0.07, 0.10),
  };
  has_started_ = false;
  steps_in_stage_ = 0;
  previous_closure_ = 0.0;
}

ArmGoal PickAndPlace::Plan(const SceneView& scene, const PlaceTarget& target, bool is_placed) {
  if (!has_started_) Start(scene, target, is_placed);
  // the box may have moved, so measure again until the fingers close
  if (stage_ == Stage::kReach || stage_ == Stage::kDescend) grasp_ = FindGrasp(scene.data);
  if (stage_ == Stage::kClose && !IsBetweenPads(scene)) {
    grasp_.pinch = Shifted(grasp_.pinch, box_velocity_, kControlPeriod);
  }

  const Stage next = NextStage(scene, target, is_placed);
  ++steps_in_stage_;
  if (next != stage_) {
    stage_ = next;
    steps_in_stage_ = 0;
    anchor_ = Hand(scene).pinch;
    if (stage_ == Stage::kReach) grasp_ = FindGrasp(scene.data);
    if (stage_ == Stage::kOpen) anchor_ = ReleasePose(scene, target);
  }
  previous_closure_ = Hand(scene).closure;
  return GoalOf(stage_, scene, target);
}

void PickAndPlace::Start(const SceneView& scene, const PlaceTarget& target, bool is_placed) {
  has_started_ = true;
  grasp_ = FindGrasp(scene.data);
  anchor_ = Hand(scene).pinch;
  if (!IsBetweenPads(scene)) {
    stage_ = is_placed ? Stage::kRetreat : Stage::kReach;
    return;
  }
  grasp_ = {.pinch = anchor_, .width = (1.0 - Hand(scene).closure) * kGap};
  const Vector3& at = anchor_.position;
  const Vector3 above = AbovePlace(target).position;
  const bool is_above = std::hypot(at[0] - above[0], at[1] - above[1]) < kPassDistance;
  const bool is_high = at[2] > above[2] - kPassDistance;
  stage_ = is_above ? Stage::kLower : is_high ? Stage::kCarry : Stage::kLift;
}

PickAndPlace::Stage PickAndPlace::NextStage(const SceneView& scene, const PlaceTarget& target,
                                            bool is_placed) const {
  const HandState& hand = Hand(scene);
  const bool is_stuck = steps_in_stage_ >= kPatience;
  const double touching = 1.0 - grasp_.width / kGap;
  switch (stage_) {
    case Stage::kReach: {
      const Pose hover = Shifted(grasp_.pinch, {0, 0, 1}, variation_.hover_height);
      // the pads need room for the box, even while the hand still swings a little
      const double room = std::min(kRoom, (kGap - grasp_.width) / 2.0);
      const double distance = is_stuck ? kPassDistance : room;
      const bool is_over = IsNear(hand.pinch, hover, distance, kPassAngle);
      return is_over && hand.closure < kOpenEnough ? Stage::kDescend : stage_;
    }
    case Stage::kDescend: {
      if (IsNear(hand.pinch, grasp_.pinch, kArriveDistance, kArriveAngle)) return Stage::kClose;
      const Vector3& at = hand.pinch.position;
      const Vector3& to = grasp_.pinch.position;
      const bool is_away = std::hypot(at[0] - to[0], at[1] - to[1]) > kAwayDistance;
      return is_away || is_stuck ? Stage::kReach : stage_;
    }
    case Stage::kClose: {
      if (hand.closure > touching + kMissed || is_stuck) return Stage::kReach;
      const bool is_still = std::abs(hand.closure - previous_closure_) < kStill;
      return IsBetweenPads(scene) && is_still ? Stage::kLift : stage_;
    }
    case Stage::kLift:
      if (!IsInHand(scene) || is_stuck) return Stage::kReach;
      return hand.pinch.position[2] > kTableTop + variation_.carry_height - kPassDistance
                 ? Stage::kCarry
                 : stage_;
    case Stage::kCarry:
      if (!IsInHand(scene)) return Stage::kReach;
      return IsNear(hand.pinch, AbovePlace(target), kPassDistance, kPassAngle) ? Stage::kLower
                                                                               : stage_;
    case Stage::kLower:
      if (!IsInHand(scene)) return Stage::kReach;
      return is_stuck || IsNear(hand.pinch, ReleasePose(scene, target), kArriveDistance, mjPI)
                 ? Stage::kOpen
                 : stage_;
    case Stage::kOpen:
      return hand.closure < std::min(kOpenEnough, 0.4 * touching) || is_stuck ? Stage::kRetreat
                                                                              : stage_;
    case Stage::kRetreat:
      return hand.pinch.position[2] >
                         anchor_.position[2] + variation_.retreat_height - kPassDistance ||
                     is_stuck
                 ? Stage::kGoHome
                 : stage_;
    case Stage::kGoHome:
      return is_placed ? stage_ : Stage::kReach;
  }
  return stage_;
}

ArmGoal PickAndPlace::GoalOf(Stage stage, const SceneView& scene, const PlaceTarget& target) const {
  using Path = ArmGoal::Path;
  // an open gripper is wide enough to hit objects beside the box
  const double open = std::max(0.0, 1.0 - (grasp_.width + 2.0 * kRoom) / kGap);
  const double hold = std::min(1.0, 1.0 - grasp_.width / kGap + kSqueeze);
  switch (stage) {
    case Stage::kReach:
      return {Path::kByJoints, Shifted(Ahead(grasp_.pinch), {0, 0, 1}, variation_.hover_height),
              open};
    case Stage::kDescend:
      return {Path::kByLine, Ahead(grasp_.pinch), open};
    case Stage::kClose:
      return {Path::kByLine, Ahead(grasp_.pinch), hold};
    case Stage::kLift: {
      Pose lifted = Ahead(grasp_.pinch);
      lifted.position[2] = kTableTop + variation_.carry_height;
      return {Path::kByLine, lifted, hold};
    }
    case Stage::kCarry:
      return {Path::kByJoints, AbovePlace(target), hold};
    case Stage::kLower:
      return {Path::kByLine, ReleasePose(scene, target), hold};
    case Stage::kOpen:
      return {Path::kByLine, anchor_, 0.0};
    case Stage::kRetreat:
      return {Path::kByLine, Shifted(anchor_, {0, 0, 1}, variation_.retreat_height), 0.0};
    case Stage::kGoHome:
      break;
  }
  return {Path::kToHome, {}, 0.0};
}

PickAndPlace::Grasp PickAndPlace::FindGrasp(const mjData& data) const {
  const double* position = &data.geom_xpos[3 * box_];
  const double* rotation = &data.geom_xmat[9 * box_];
  const double* half_size = &model_.model()->geom_size[3 * box_];
  const double preferred = PreferredYaw(side_, position[0], position[1]);

  // the pads close along one of the box's two horizontal axes: take the better approach
  int upright = 0;
  for (int axis = 1; axis < 3; ++axis) {
    if (std::abs(rotation[6 + axis]) > std::abs(rotation[6 + upright])) upright = axis;
  }
  double best_yaw = preferred + mjPI;
  Grasp grasp;
  for (int axis = 0; axis < 3; ++axis) {
    if (axis == upright) continue;
    const double closing = std::atan2(rotation[3 + axis], rotation[axis]);
    const double yaw = WrapNear(closing - mjPI / 2.0, preferred, mjPI);
    if (std::abs(yaw - preferred) >= std::abs(best_yaw - preferred)) continue;
    best_yaw = yaw;
    grasp.width = 2.0 * half_size[axis];
  }

  grasp.pinch.rotation = GraspRotation(side_, best_yaw, variation_.pitch);
  grasp.pinch.position = {position[0] + variation_.grasp_forward * std::cos(best_yaw),
                          position[1] + variation_.grasp_forward * std::sin(best_yaw),
                          position[2] + variation_.grasp_height};
  return grasp;
}

/// Where the hand must aim to be at a grasp that moves with the box.
Pose PickAndPlace::Ahead(const Pose& grasp) const { return Shifted(grasp, box_velocity_, kLead); }

double PickAndPlace::BottomOf(const mjData& data) const {
  const double* rotation = &data.geom_xmat[9 * box_];
  const double* half_size = &model_.model()->geom_size[3 * box_];
  double bottom = data.geom_xpos[3 * box_ + 2];
  for (int axis = 0; axis < 3; ++axis) bottom -= std::abs(rotation[6 + axis]) * half_size[axis];
  return bottom;
}

bool PickAndPlace::IsInHand(const SceneView& scene) const {
  const double* box = &scene.data.geom_xpos[3 * box_];
  return Distance(Hand(scene).pinch.position, {box[0], box[1], box[2]}) < kLostDistance;
}

bool PickAndPlace::IsBetweenPads(const SceneView& scene) const {
  return model_.PadTouches(scene.data, side_, 0, box_) &&
         model_.PadTouches(scene.data, side_, 1, box_);
}

Pose PickAndPlace::AbovePlace(const PlaceTarget& target) const {
  const double yaw = PreferredYaw(side_, target.x, target.y) + variation_.place_yaw;
  return {.position = {target.x + variation_.place_x, target.y + variation_.place_y,
                       kTableTop + variation_.carry_height},
          .rotation = GraspRotation(side_, yaw, variation_.pitch)};
}

Pose PickAndPlace::ReleasePose(const SceneView& scene, const PlaceTarget& target) const {
  // the box hangs below the pinch point by the same distance as when it was grasped
  Pose pose = AbovePlace(target);
  pose.position[2] = target.bottom_z + Hand(scene).pinch.position[2] - BottomOf(scene.data);
  return pose;
}

}  // namespace dp_bench::kuavo_dualarm
