// The physics of PushT: one block that only contacts move, a kinematic agent under PD control, four
// walls. Box2D 2.4 finds the contacts. They are resolved as in pymunk 6 (Chipmunk 7), so that
// recorded episodes replay exactly. Chipmunk's constants differ from Box2D's: a penetration slop of
// 0.1 px, and separate bias velocities that remove 6 % of the remaining overlap in each substep.
#pragma once

#include <box2d/b2_circle_shape.h>
#include <box2d/b2_edge_shape.h>
#include <box2d/b2_polygon_shape.h>

#include <array>
#include <cstddef>

#include "pusht_world.h"

namespace dp_bench::pusht {

inline constexpr double kSubstep = 0.01;                           // [s]
inline constexpr int kSubstepsPerControl = 10;                     // 10 Hz control
inline constexpr double kPeriod = kSubstep * kSubstepsPerControl;  // [s]
inline constexpr double kAgentStiffness = 100.0;                   // kp [1/s^2]
inline constexpr double kAgentDamping = 20.0;                      // kv [1/s]
inline constexpr double kLag = kAgentDamping / kAgentStiffness;    // behind a moving target [s]

/// Advances a PushtState. It keeps only the state between calls, so equal states continue with
/// equal bits regardless of history. differs: pymunk warm-starts its solver with the impulses of
/// the previous substep, which only matters if several contacts act at once.
class PushtPhysics {
 public:
  PushtPhysics();

  const PushtState& state() const { return state_; }
  void SetState(const PushtState& state);

  /// The share of its velocity that the block keeps per substep, in [0, 1): it keeps sliding after
  /// a push. 0, as in the task, stops it at once.
  void SetSlide(double share) { slide_ = share; }

  /// The velocity of a block that nothing touches [px/s]. Zero, as in the task, leaves it in place.
  void SetWind(const Point& wind) { wind_ = wind; }

  /// One substep with a constant velocity of the agent.
  void Substep();

  /// One control period: a PD controller at 100 Hz pulls the agent to `target` [px].
  void StepTowards(const Point& target);

  /// Points where something pushes the block, summed over the substeps of the latest StepTowards;
  /// after SetState, over the substeps since then.
  int n_contact_points() const { return n_contact_points_; }

 private:
  /// A point where another body pushes the block.
  struct Contact {
    Point arm;              // from the block's centre of gravity to the touching point of the block
    Point normal;           // towards the block
    double distance = 0.0;  // negative if they overlap [px]
    double approach_speed = 0.0;  // of the other body along the normal [px/s]
    double effective_mass = 0.0;
    double impulse = 0.0;
    double bias_speed = 0.0;
    double bias_impulse = 0.0;
  };

  // the agent's single point on each box, and two on each box from each wall
  static constexpr std::size_t kMaxContacts = 2 + 2 * 2 * 4;

  void PlaceBlock();
  void MoveBlock();
  void SlowDownBlock();
  void FindAgentContacts();
  void FindWallContacts();
  void AddContact(const Point& arm, const Point& normal, double distance, double approach_speed);
  void ResolveContacts();

  PushtState state_;
  double slide_ = 0.0;
  Point wind_;

  // derived from the block's pose
  Frame cog_;  // the block's frame, moved to its centre of gravity
  bool near_wall_ = false;

  std::array<b2PolygonShape, 2> boxes_;  // around the centre of gravity
  std::array<b2EdgeShape, 4> walls_;
  b2CircleShape agent_;  // its position is in the block's frame

  std::array<Contact, kMaxContacts> contacts_;
  std::size_t n_contacts_ = 0;
  int n_contact_points_ = 0;
};

}  // namespace dp_bench::pusht
