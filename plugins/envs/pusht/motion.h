// What moves in PushT without an action: the goal, and a block in the wind. Both keep their speed
// and turn at a rate that is drawn again every half second, so that their future is only known for
// a short time.
#pragma once

#include <cstdint>
#include <span>

#include "dp_bench/config.h"
#include "pusht_world.h"

namespace dp_bench::pusht {

/// A speed and how fast its direction changes.
struct Wandering {
  bool is_given = false;
  double speed = 0.0;  // [px/s]
  double turn = 0.0;   // largest rate of turn [rad/s]
};

/// The params `goal_motion`, `wind` and `follow`. Without them nothing is drawn, and the world
/// waits.
struct MotionParams {
  Wandering goal;
  Wandering wind;
  bool is_following = false;    // the agent itself must stay on the goal
  double follow_radius = 20.0;  // [px]
  int hold_steps = 20;          // for so many steps on end

  static MotionParams FromConfig(const Config& params);
  bool is_given() const { return goal.is_given || wind.is_given; }
  bool moves() const { return goal.speed > 0.0 || wind.speed > 0.0; }
};

/// What moves by itself, at one time. The velocities hold for one control period.
struct Motion {
  Point goal;              // its offset from kGoalPose [px]
  Point goal_velocity;     // [px/s]
  double goal_turn = 0.0;  // [rad/s]
  Point wind;              // the velocity of a block that nothing touches [px/s]
};

/// One episode's motion: a function of the seed and the number of steps.
class WorldMotion {
 public:
  static constexpr std::size_t kStateSize = 5;

  explicit WorldMotion(const MotionParams& params) : params_(params) {}

  void Begin(std::uint64_t seed);

  /// One control period with now()'s velocities.
  void Advance();

  const Motion& now() const { return now_; }

  // The state, apart from the seed: the goal's offset, both directions, and the number of steps.
  void GetState(std::span<double> state) const;
  void SetState(std::uint64_t seed, std::span<const double> state);

 private:
  void SetVelocities();

  MotionParams params_;
  Motion now_;
  std::uint64_t seed_ = 0;
  double goal_direction_ = 0.0;  // [rad]
  double wind_direction_ = 0.0;
  double wind_turn_ = 0.0;  // [rad/s]
  double step_ = 0.0;
};

/// The action that keeps the agent on the goal, which is expected to keep its rate of turn, [2].
void FollowGoal(const Motion& motion, std::span<float> action);

}  // namespace dp_bench::pusht
