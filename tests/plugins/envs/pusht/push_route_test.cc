// Routes around the block.
#include "push_route.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dp_bench::pusht {
namespace {

constexpr double kGap = 10.0;
constexpr double kGrown = kAgentRadius + kGap;
constexpr Pose kUpright = {256.0, 200.0, 0.0};

TEST(PushRoute, IsAStraightLineWhereTheBlockIsNotInTheWay) {
  const auto route = RouteMap(kUpright, {100.0, 100.0}, kGap).To({400.0, 120.0});
  ASSERT_TRUE(route);
  EXPECT_EQ(route->size, 2U);
  EXPECT_NEAR(route->length, std::hypot(300.0, 20.0), 1e-9);
}

TEST(PushRoute, RoundsTheCornersOnTheShorterSide) {
  // from above the bar, right of its middle, to below its right half
  const auto route = RouteMap(kUpright, {276.0, 150.0}, kGap).To({310.0, 280.0});
  ASSERT_TRUE(route);
  ASSERT_EQ(route->size, 4U);
  EXPECT_NEAR(route->points[1].x, 256.0 + 60.0 + kGrown, 1e-9);
  EXPECT_NEAR(route->points[1].y, 200.0 - kGrown, 1e-9);
  EXPECT_NEAR(route->points[2].y, 200.0 + 30.0 + kGrown, 1e-9);
}

TEST(PushRoute, LeavesTheBlockByTheShortestWayFirst) {
  const auto route = RouteMap(kUpright, {256.0, 184.0}, kGap).To({256.0, 100.0});
  ASSERT_TRUE(route);
  ASSERT_EQ(route->size, 3U);
  EXPECT_NEAR(route->points[1].x, 256.0, 1e-9);
  EXPECT_NEAR(route->points[1].y, 200.0 - kGrown, 1e-9);
  EXPECT_NEAR(route->length, 84.0, 1e-9);
}

TEST(PushRoute, DoesNotLeaveTheRoom) {
  // the bar lies along the upper wall: points above it cannot be reached
  constexpr Pose kAtWall = {256.0, 20.0, 0.0};
  EXPECT_FALSE(RouteMap(kAtWall, {256.0, 300.0}, kGap).To({256.0, 20.0 - kGrown}));
  EXPECT_TRUE(RouteMap(kAtWall, {256.0, 300.0}, kGap).To({256.0 + 60.0 + kGrown, 20.0}));
}

}  // namespace
}  // namespace dp_bench::pusht
