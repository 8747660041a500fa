// How smooth executed actions are.
#include "rollout/action_jerk.h"

#include <gtest/gtest.h>

#include <vector>

namespace dp_bench::rollout {
namespace {

TEST(ActionJerk, APathOfSecondOrderHasNone) {
  ActionJerk jerk;
  jerk.Start();
  for (int t = 0; t < 10; ++t) {
    const auto s = static_cast<float>(t);
    jerk.Add(std::vector<float>{3.0F * s * s - s, 2.0F - s}, /*chunk=*/1);
  }
  EXPECT_EQ(jerk.mean_elsewhere(), 0.0);
  EXPECT_EQ(jerk.mean_at_seams(), 0.0);
}

TEST(ActionJerk, AJumpBetweenChunksCountsAtTheSeamOnly) {
  ActionJerk jerk;
  jerk.Start();
  for (int t = 0; t < 12; ++t) {
    const bool is_second = t >= 6;
    jerk.Add(std::vector<float>{is_second ? 3.0F : 0.0F, is_second ? 4.0F : 0.0F}, is_second);
  }
  // a step of size 5 has the third differences 5, -10, 5
  EXPECT_DOUBLE_EQ(jerk.mean_at_seams(), 20.0 / 3.0);
  EXPECT_EQ(jerk.mean_elsewhere(), 0.0);
  jerk.Start();
  EXPECT_EQ(jerk.mean_at_seams(), 0.0);
}

}  // namespace
}  // namespace dp_bench::rollout
