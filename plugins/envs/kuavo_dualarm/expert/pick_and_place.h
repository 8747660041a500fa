// One hand moves a box to another place: the stages that pick_place, weigh_relay and
// conveyor_pick share.
#pragma once

#include "dp_bench/random.h"
#include "script.h"

namespace dp_bench::kuavo_dualarm {

/// The target of a box [m].
struct PlaceTarget {
  double x = 0.0;
  double y = 0.0;
  double bottom_z = 0.0;  // height of the box's lower side at release
};

/// Picks and places with one hand, repeatedly until the box is in place.
class PickAndPlace {
 public:
  /// `box`: a geom of type box, in the middle of a body that moves freely.
  PickAndPlace(const KuavoModel& model, Side side, int box);

  /// Draws the variation and restarts. The next call of `Plan` chooses the stage by what it finds:
  /// the hand may hold the box already, or the box may be in place.
  void Begin(RandomStream& random);

  /// The box moves with this velocity [m/s] while nothing holds it; 0 if it is never told.
  void SetBoxVelocity(const Vector3& velocity) { box_velocity_ = velocity; }

  /// The goal for the next step. `is_placed`: the box is in place, so a hand on its way home does
  /// not return for it.
  ArmGoal Plan(const SceneView& scene, const PlaceTarget& target, bool is_placed);

 private:
  enum class Stage { kReach, kDescend, kClose, kLift, kCarry, kLower, kOpen, kRetreat, kGoHome };

  /// Small differences between episodes.
  struct Variation {
    double pitch = 0.0;           // of the approach, below the horizontal [rad]
    double hover_height = 0.0;    // of the pinch point above the grasp [m]
    double grasp_height = 0.0;    // of the pinch point above the middle of the box [m]
    double grasp_forward = 0.0;   // of the pinch point beyond the middle of the box [m]
    double carry_height = 0.0;    // of the pinch point above the table [m]
    double place_x = 0.0;         // offset from the target [m]
    double place_y = 0.0;         // [m]
    double place_yaw = 0.0;       // offset from the preferred yaw [rad]
    double retreat_height = 0.0;  // above the release point [m]
  };

  /// How the hand grasps the box.
  struct Grasp {
    Pose pinch;
    double width = 0.0;  // of the box between the pads [m]
  };

  Grasp FindGrasp(const mjData& data) const;
  Pose Ahead(const Pose& grasp) const;
  double BottomOf(const mjData& data) const;
  bool IsInHand(const SceneView& scene) const;
  bool IsBetweenPads(const SceneView& scene) const;
  Pose AbovePlace(const PlaceTarget& target) const;
  Pose ReleasePose(const SceneView& scene, const PlaceTarget& target) const;

  void Start(const SceneView& scene, const PlaceTarget& target, bool is_placed);
  Stage NextStage(const SceneView& scene, const PlaceTarget& target, bool is_placed) const;
  ArmGoal GoalOf(Stage stage, const SceneView& scene, const PlaceTarget& target) const;
  const HandState& Hand(const SceneView& scene) const { return scene.hands[Index(side_)]; }

  const KuavoModel& model_;
  Side side_;
  int box_;
  Variation variation_;
  Vector3 box_velocity_ = {};

  bool has_started_ = false;
  Stage stage_ = Stage::kReach;
  int steps_in_stage_ = 0;
  Grasp grasp_;                    // the hand's goal; frozen once the fingers close
  Pose anchor_;                    // the pose that the stage holds or starts from
  double previous_closure_ = 0.0;  // measured one step ago
};

}  // namespace dp_bench::kuavo_dualarm
