// The contour of the T, and the agent's speed along a push.
#include "push_walk.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace dp_bench::pusht {
namespace {

constexpr double kMinSpeed = 1.0;      // [px per control period]
constexpr double kAcceleration = 4.0;  // [px per control period^2]
constexpr double kBraking = 0.35;      // share of the remaining route covered per control period

/// A segment of the contour in the block's frame, parallel to an axis.
struct Face {
  Point begin;
  Point end;
  double inward;  // direction of its inward normal [rad]
};

constexpr double kReach = kAgentRadius + kClearance;
constexpr Box kBar = kBlockBoxes[0];
constexpr Box kStem = kBlockBoxes[1];

constexpr double kRight = kStem.high.x + kReach;  // of the stem
constexpr double kLeft = kStem.low.x - kReach;
constexpr double kBelow = kBar.high.y + kReach;  // the bar
constexpr std::array<Face, 8> kFaces = {{
    {{kBar.low.x, kBar.low.y - kReach}, {kBar.high.x, kBar.low.y - kReach}, kPi / 2.0},
    {{kBar.high.x + kReach, kBar.low.y}, {kBar.high.x + kReach, kBar.high.y}, kPi},
    {{kBar.high.x, kBelow}, {kRight, kBelow}, -kPi / 2.0},
    {{kRight, kBelow}, {kRight, kStem.high.y}, kPi},
    {{kStem.high.x, kStem.high.y + kReach}, {kStem.low.x, kStem.high.y + kReach}, -kPi / 2.0},
    {{kLeft, kStem.high.y}, {kLeft, kBelow}, 0.0},
    {{kLeft, kBelow}, {kBar.low.x, kBelow}, -kPi / 2.0},
    {{kBar.low.x - kReach, kBar.high.y}, {kBar.low.x - kReach, kBar.low.y}, 0.0},
}};

double LengthOf(const Face& face) {
  return std::abs(face.end.x - face.begin.x) + std::abs(face.end.y - face.begin.y);
}

}  // namespace

double ContourLength() {
  double length = 0.0;
  for (const Face& face : kFaces) length += LengthOf(face);
  return length;
}

PushStart StartOf(const Push& push, const Pose& block) {
  const double length = ContourLength();
  double rest = push.contact - length * std::floor(push.contact / length);
  std::size_t i = 0;
  while (i + 1 < kFaces.size() && rest > LengthOf(kFaces[i])) rest -= LengthOf(kFaces[i++]);
  const Face& face = kFaces[i];
  const double share = std::min(1.0, rest / LengthOf(face));
  const Point p = {face.begin.x + share * (face.end.x - face.begin.x),
                   face.begin.y + share * (face.end.y - face.begin.y)};
  return {.point = Frame(block).ToWorld(p), .heading = block.angle + face.inward + push.turn};
}

PushWalk::PushWalk(const Route& route, double heading, const Push& push, double speed)
    : route_(route),
      point_(route.points[0]),
      heading_(heading),
      bend_(push.bend),
      speed_(speed),
      route_rest_(route.length),
      arc_rest_(push.length) {}

Point PushWalk::Next() {
  double limit = kPushSpeed;
  if (route_rest_ > 0.0) limit = std::min(kFreeSpeed, kPushSpeed + kBraking * route_rest_);
  limit = std::min(limit, std::max(kMinSpeed, kBraking * (route_rest_ + arc_rest_)));
  speed_ = std::min(limit, speed_ + kAcceleration);
  FollowArc(FollowRoute(speed_));
  return point_;
}

/// Returns the part of `way` [px] that is left at the end of the route.
double PushWalk::FollowRoute(double way) {
  while (route_rest_ > 0.0) {
    const Point& to = route_.points[next_];
    const double gap = Distance(to, point_);
    if (gap > way) {
      point_.x += (to.x - point_.x) * way / gap;
      point_.y += (to.y - point_.y) * way / gap;
      route_rest_ = std::max(route_rest_ - way, 1e-9);  // only the last point ends the route
      return 0.0;
    }
    point_ = to;
    way -= gap;
    ++next_;
    route_rest_ = next_ == route_.size ? 0.0 : std::max(route_rest_ - gap, 1e-9);
  }
  return way;
}

void PushWalk::FollowArc(double way) {
  if (way <= 0.0) return;
  way = std::min(way, arc_rest_);
  heading_ += 0.5 * bend_ * way;
  point_.x += way * std::cos(heading_);
  point_.y += way * std::sin(heading_);
  heading_ += 0.5 * bend_ * way;
  arc_rest_ -= way;
}

}  // namespace dp_bench::pusht
