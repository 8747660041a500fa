// Routes for the agent around the block, from the visibility graph of the block grown by a
// clearance.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "pusht_world.h"

namespace dp_bench::pusht {

/// The T's outer corners. Its two inner ones are never on a shortest route.
inline constexpr std::size_t kOuterCorners = 6;

/// A polyline [px].
struct Route {
  std::array<Point, kOuterCorners + 3> points;  // start, exit from the clearance, corners, end
  std::size_t size = 0;
  double length = 0.0;
};

/// Shortest routes from one start. The agent's centre keeps `clearance` [px] from the block and
/// stays inside the walls. A start closer than that first leaves the clearance on the shortest way.
class RouteMap {
 public:
  RouteMap(const Pose& block, const Point& start, double clearance);

  /// The route to `end`, in world coordinates; none if the walls or the block are in the way.
  std::optional<Route> To(const Point& end) const;

 private:
  static constexpr std::size_t kNone = kOuterCorners;

  bool IsFree(const Point& a, const Point& b) const;
  void MeasureCorners();

  Frame block_;
  Point start_;                  // these three in the block's frame
  Point exit_;                   // the start, or the point where it leaves the clearance
  std::array<Box, 2> barriers_;  // the block's boxes, grown
  std::array<Point, kOuterCorners> corners_;
  std::array<bool, kOuterCorners> is_inside_walls_ = {};
  std::array<double, kOuterCorners> distance_;       // from exit_ to each corner
  std::array<std::size_t, kOuterCorners> previous_;  // on that route; kNone is exit_
};

/// Whether `p` is between the walls. Walls stop only the block: the agent's rim may cross them, as
/// in the demonstrations.
bool IsInsideWalls(const Point& p);

}  // namespace dp_bench::pusht
