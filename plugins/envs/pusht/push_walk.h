// The execution of a push: around the block to a point on its contour, then along an arc.
#pragma once

#include "push_route.h"
#include "pusht_world.h"

namespace dp_bench::pusht {

/// Between agent and block on the route around it [px].
inline constexpr double kClearance = 10.0;
inline constexpr double kFreeSpeed = 16.0;  // of the target [px per control period]
inline constexpr double kPushSpeed = 9.0;

/// Where and how to push. The contour is the set of positions of the agent's centre at a distance
/// of `kClearance` from a face of the block. It is cut open at the bar's top left and followed
/// clockwise.
struct Push {
  double contact = 0.0;  // along the contour, cyclic [px]
  double turn = 0.0;     // of the arc's start, relative to the face's inward normal [rad]
  double bend = 0.0;     // of the arc [rad/px]
  double length = 0.0;   // of the arc [px]
};

/// The length of the contour [px].
double ContourLength();

/// Position and direction of the agent's centre at the start of a push.
struct PushStart {
  Point point;
  double heading = 0.0;  // [rad]
};
PushStart StartOf(const Push& push, const Pose& block);

/// The targets of the agent, one per control period. The speed rises gently, is lower during the
/// push, and fades out at the end.
class PushWalk {
 public:
  /// `route` ends at the push's start; the walk begins with `speed` [px per control period].
  PushWalk(const Route& route, double heading, const Push& push, double speed);

  bool is_on_route() const { return route_rest_ > 0.0; }
  bool is_done() const { return route_rest_ <= 0.0 && arc_rest_ <= 0.0; }
  Point Next();

 private:
  double FollowRoute(double way);
  void FollowArc(double way);

  Route route_;
  std::size_t next_ = 1;  // the next point of the route
  Point point_;
  double heading_;
  double bend_;
  double speed_;
  double route_rest_;
  double arc_rest_;
};

}  // namespace dp_bench::pusht
