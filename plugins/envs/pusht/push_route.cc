// Dijkstra's algorithm (1959) over six corners.
#include "push_route.h"

#include <algorithm>
#include <limits>

namespace dp_bench::pusht {
namespace {

constexpr double kTouch = 1e-6;  // routes may run along a barrier [px]
constexpr double kUnreached = std::numeric_limits<double>::infinity();

bool IsInside(const Point& p, const Box& box) {
  return p.x > box.low.x + kTouch && p.x < box.high.x - kTouch && p.y > box.low.y + kTouch &&
         p.y < box.high.y - kTouch;
}

/// Clips [enter, leave], shares of the segment from `from` by `step`, to the part inside the slab.
void CutToSlab(double from, double step, double low, double high, double* enter, double* leave) {
  low += kTouch;
  high -= kTouch;
  if (step == 0.0) {
    if (from <= low || from >= high) *leave = -1.0;
    return;
  }
  const double a = (low - from) / step;
  const double b = (high - from) / step;
  *enter = std::max(*enter, std::min(a, b));
  *leave = std::min(*leave, std::max(a, b));
}

bool Crosses(const Point& a, const Point& b, const Box& box) {
  double enter = 0.0;
  double leave = 1.0;
  CutToSlab(a.x, b.x - a.x, box.low.x, box.high.x, &enter, &leave);
  CutToSlab(a.y, b.y - a.y, box.low.y, box.high.y, &enter, &leave);
  return enter < leave;
}

/// The nearest point on the outline of the two boxes' union, for a point inside it.
Point NearestExit(const Point& p, const std::array<Box, 2>& boxes) {
  Point nearest = p;
  double best = kUnreached;
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Box& box = boxes[i];
    const std::array<Point, 4> exits = {Point{box.low.x, p.y}, Point{box.high.x, p.y},
                                        Point{p.x, box.low.y}, Point{p.x, box.high.y}};
    for (const Point& exit : exits) {
      if (!IsInside(p, box) || IsInside(exit, boxes[1 - i])) continue;
      if (Distance(p, exit) < best) {
        best = Distance(p, exit);
        nearest = exit;
      }
    }
  }
  return nearest;
}

}  // namespace

bool IsInsideWalls(const Point& p) {
  return std::min(p.x, p.y) > kWallLow + kWallRadius &&
         std::max(p.x, p.y) < kWallHigh - kWallRadius;
}

RouteMap::RouteMap(const Pose& block, const Point& start, double clearance) : block_(block) {
  const double reach = kAgentRadius + clearance;
  for (std::size_t i = 0; i < barriers_.size(); ++i) {
    const Box& box = kBlockBoxes[i];
    barriers_[i] = {{box.low.x - reach, box.low.y - reach},
                    {box.high.x + reach, box.high.y + reach}};
  }
  const Box& bar = barriers_[0];
  const Box& stem = barriers_[1];
  corners_ = {bar.low,   Point{bar.high.x, bar.low.y},   bar.high,
              stem.high, Point{stem.low.x, stem.high.y}, Point{bar.low.x, bar.high.y}};
  for (std::size_t i = 0; i < kOuterCorners; ++i) {
    is_inside_walls_[i] = IsInsideWalls(block_.ToWorld(corners_[i]));
  }
  start_ = block_.ToLocal(start);
  exit_ = NearestExit(start_, barriers_);
  MeasureCorners();
}

bool RouteMap::IsFree(const Point& a, const Point& b) const {
  return !Crosses(a, b, barriers_[0]) && !Crosses(a, b, barriers_[1]);
}

void RouteMap::MeasureCorners() {
  for (std::size_t i = 0; i < kOuterCorners; ++i) {
    const bool is_seen = is_inside_walls_[i] && IsFree(exit_, corners_[i]);
    distance_[i] = is_seen ? Distance(exit_, corners_[i]) : kUnreached;
    previous_[i] = kNone;
  }
  std::array<bool, kOuterCorners> is_done = {};
  for (std::size_t round = 0; round < kOuterCorners; ++round) {
    std::size_t nearest = kNone;
    for (std::size_t i = 0; i < kOuterCorners; ++i) {
      if (!is_done[i] && distance_[i] < kUnreached &&
          (nearest == kNone || distance_[i] < distance_[nearest])) {
        nearest = i;
      }
    }
    if (nearest == kNone) return;
    is_done[nearest] = true;
    for (std::size_t i = 0; i < kOuterCorners; ++i) {
      const double length = distance_[nearest] + Distance(corners_[nearest], corners_[i]);
      if (is_inside_walls_[i] && length < distance_[i] && IsFree(corners_[nearest], corners_[i])) {
        distance_[i] = length;
        previous_[i] = nearest;
      }
    }
  }
}

std::optional<Route> RouteMap::To(const Point& end) const {
  if (!IsInsideWalls(end)) return std::nullopt;
  const Point local = block_.ToLocal(end);
  double best = IsFree(exit_, local) ? Distance(exit_, local) : kUnreached;
  std::size_t last = kNone;
  for (std::size_t i = 0; i < kOuterCorners; ++i) {
    const double length = distance_[i] + Distance(corners_[i], local);
    if (length < best && IsFree(corners_[i], local)) {
      best = length;
      last = i;
    }
  }
  if (best == kUnreached) return std::nullopt;

  // from the end back to the start
  Route route;
  route.length = Distance(start_, exit_) + best;
  route.points[route.size++] = local;
  for (std::size_t i = last; i != kNone; i = previous_[i]) route.points[route.size++] = corners_[i];
  if (Distance(start_, exit_) > kTouch) route.points[route.size++] = exit_;
  route.points[route.size++] = start_;
  std::reverse(route.points.begin(),
               route.points.begin() + static_cast<std::ptrdiff_t>(route.size));
  for (std::size_t i = 0; i < route.size; ++i) route.points[i] = block_.ToWorld(route.points[i]);
  return route;
}

}  // namespace dp_bench::pusht
