// Sutherland-Hodgman clipping (1974) of each block box against each goal box, in the goal's frame,
// where the goal boxes are axis-parallel. Boxes have four corners, so buffers of eight are enough.
#include "coverage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace dp_bench::pusht {
namespace {

// Clipping a convex polygon against one half plane adds at most one corner; four corners, four
// cuts.
constexpr std::size_t kMaxCorners = 8;

struct Polygon {
  std::array<Point, kMaxCorners> corners;
  std::size_t size = 0;
};

/// Keeps the part where sign * (coordinate - bound) <= 0.
template <double Point::*kCoordinate>
void Clip(Polygon& polygon, double bound, double sign) {
  Polygon kept;
  for (std::size_t i = 0; i < polygon.size; ++i) {
    const Point& a = polygon.corners[i];
    const Point& b = polygon.corners[i + 1 == polygon.size ? 0 : i + 1];
    const double da = sign * (a.*kCoordinate - bound);
    const double db = sign * (b.*kCoordinate - bound);
    if (da <= 0.0 && kept.size < kMaxCorners) kept.corners[kept.size++] = a;
    if ((da < 0.0 && db > 0.0) || (da > 0.0 && db < 0.0)) {
      const double t = da / (da - db);
      if (kept.size < kMaxCorners) {
        kept.corners[kept.size++] = {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)};
      }
    }
  }
  polygon = kept;
}

double Area(const Polygon& polygon) {
  double twice = 0.0;
  for (std::size_t i = 0; i < polygon.size; ++i) {
    const Point& a = polygon.corners[i];
    const Point& b = polygon.corners[i + 1 == polygon.size ? 0 : i + 1];
    twice += a.x * b.y - b.x * a.y;
  }
  return 0.5 * std::abs(twice);
}

double ClippedArea(Polygon polygon, const Box& box) {
  Clip<&Point::x>(polygon, box.low.x, -1.0);
  Clip<&Point::x>(polygon, box.high.x, 1.0);
  Clip<&Point::y>(polygon, box.low.y, -1.0);
  Clip<&Point::y>(polygon, box.high.y, 1.0);
  return Area(polygon);
}

/// Whether the polygon's bounding box overlaps `box`.
bool MayOverlap(const Polygon& polygon, const Box& box) {
  Point low = polygon.corners[0];
  Point high = low;
  for (std::size_t i = 1; i < polygon.size; ++i) {
    low = {std::min(low.x, polygon.corners[i].x), std::min(low.y, polygon.corners[i].y)};
    high = {std::max(high.x, polygon.corners[i].x), std::max(high.y, polygon.corners[i].y)};
  }
  return low.x < box.high.x && high.x > box.low.x && low.y < box.high.y && high.y > box.low.y;
}

}  // namespace

double Coverage(const Pose& block) {
  // the block's pose in the goal's frame
  static const Frame goal_frame(kGoalPose);
  const Point origin = goal_frame.ToLocal({block.x, block.y});
  // no corner of the T is more than 121 px from its origin
  constexpr double kReach = 2.0 * 121.0;
  if (origin.x * origin.x + origin.y * origin.y > kReach * kReach) return 0.0;

  const Frame in_goal(Pose{origin.x, origin.y, block.angle - kGoalPose.angle});
  double area = 0.0;
  for (const Box& box : kBlockBoxes) {
    Polygon polygon;
    for (const Point& corner : CornersOf(box)) {
      polygon.corners[polygon.size++] = in_goal.ToWorld(corner);
    }
    // the boxes of one T share an edge but no area, so the parts add up
    for (const Box& goal : kBlockBoxes) {
      if (MayOverlap(polygon, goal)) area += ClippedArea(polygon, goal);
    }
  }
  return area / kBlockArea;
}

}  // namespace dp_bench::pusht
