#include "planner/scope_timer.h"

#include <gtest/gtest.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "support/distant_device/distant_device.h"

namespace dp_bench::planner {
namespace {

TEST(ScopeTimer, TimesEachCallOfEachScopeAndNoOperators) {
  { RECORD_USER_SCOPE("before"); }
  const ScopeTimer timer;
  for (int i = 0; i < 3; ++i) {
    RECORD_USER_SCOPE("outer");
    torch::ones({2}).sum();
  }
  ASSERT_EQ(timer.seconds().size(), 1U);
  ASSERT_EQ(timer.seconds().at("outer").size(), 3U);
  for (const double seconds : timer.seconds().at("outer")) EXPECT_GE(seconds, 0.0);
}

TEST(ScopeTimer, AScopeLastsUntilTheDeviceHasDoneItsWork) {
  const ScopeTimer timer(DistantDevice());
  const std::int64_t before = DistantDeviceWaits();
  { RECORD_USER_SCOPE("scope"); }
  EXPECT_EQ(DistantDeviceWaits() - before, 2) << "for what was asked before, and for its own";
}

TEST(ScopeTimer, ChangesNoResult) {
  torch::manual_seed(0);
  const torch::Tensor x = torch::randn({8, 8});
  const torch::Tensor plain = torch::mm(x, x);
  const ScopeTimer timer;
  RECORD_USER_SCOPE("product");
  EXPECT_TRUE(torch::equal(torch::mm(x, x), plain));
}

}  // namespace
}  // namespace dp_bench::planner
