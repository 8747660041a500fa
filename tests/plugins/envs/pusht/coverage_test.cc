// Coverage compared with Boost.Geometry, an independent implementation.
#include "coverage.h"

#include <gtest/gtest.h>

#include <boost/geometry.hpp>
#include <boost/geometry/geometries/multi_polygon.hpp>
#include <boost/geometry/geometries/point_xy.hpp>
#include <boost/geometry/geometries/polygon.hpp>
#include <cmath>

#include "dp_bench/random.h"

namespace dp_bench::pusht {
namespace {

namespace bg = boost::geometry;
using BgPoint = bg::model::d2::point_xy<double>;
using BgPolygon = bg::model::polygon<BgPoint>;

/// The outline of the T at `pose`.
BgPolygon Outline(const Pose& pose) {
  const double c = std::cos(pose.angle);
  const double s = std::sin(pose.angle);
  BgPolygon outline;
  for (const Point& p : {Point{-60, 0}, Point{60, 0}, Point{60, 30}, Point{15, 30}, Point{15, 120},
                         Point{-15, 120}, Point{-15, 30}, Point{-60, 30}}) {
    bg::append(outline, BgPoint(pose.x + c * p.x - s * p.y, pose.y + s * p.x + c * p.y));
  }
  bg::correct(outline);
  return outline;
}

double BoostCoverage(const Pose& pose) {
  bg::model::multi_polygon<BgPolygon> shared;
  bg::intersection(Outline(kGoalPose), Outline(pose), shared);
  return bg::area(shared) / kBlockArea;
}

// float64 rounding, with a margin; Boost.Geometry snaps coordinates to its own grid
constexpr double kTolerance = 1e-9;
constexpr double kBoostTolerance = 1e-6;

TEST(Coverage, AgreesWithBoostGeometryAroundTheGoal) {
  RandomStream random(3, StreamId::kEnvStart);
  int n_overlapping = 0;
  for (int i = 0; i < 5000; ++i) {
    // half of the poses are close to the goal, the rest anywhere within reach
    const double reach = i % 2 == 0 ? 20.0 : 200.0;
    const double turn = i % 2 == 0 ? 0.2 : kPi;
    const Pose pose = {kGoalPose.x + reach * (2 * random.UniformDouble() - 1),
                       kGoalPose.y + reach * (2 * random.UniformDouble() - 1),
                       kGoalPose.angle + turn * (2 * random.UniformDouble() - 1)};
    const double coverage = Coverage(pose);
    ASSERT_NEAR(coverage, BoostCoverage(pose), kBoostTolerance)
        << pose.x << " " << pose.y << " " << pose.angle;
    if (coverage > 0.0) ++n_overlapping;
  }
  EXPECT_GT(n_overlapping, 3000);
}

TEST(Coverage, IsOneAtTheGoalAndAfterWholeTurns) {
  EXPECT_NEAR(Coverage(kGoalPose), 1.0, kTolerance);
  EXPECT_NEAR(Coverage({kGoalPose.x, kGoalPose.y, kGoalPose.angle - 4 * kPi}), 1.0, kTolerance);
}

TEST(Coverage, IsZeroOutOfReach) { EXPECT_EQ(Coverage({40.0, 40.0, 0.0}), 0.0); }

TEST(Coverage, OfAShiftAlongTheBarIsWhatIsLeftOfBothBoxes) {
  // 10 px along the goal's x axis: the bar keeps 110 of 120 px, the stem 20 of 30, and the stem's
  // shifted edge meets nothing new
  const double c = std::cos(kGoalPose.angle);
  const double s = std::sin(kGoalPose.angle);
  const Pose pose = {kGoalPose.x + 10 * c, kGoalPose.y + 10 * s, kGoalPose.angle};
  EXPECT_NEAR(Coverage(pose), (110.0 * 30.0 + 20.0 * 90.0) / kBlockArea, kTolerance);
}

}  // namespace
}  // namespace dp_bench::pusht
