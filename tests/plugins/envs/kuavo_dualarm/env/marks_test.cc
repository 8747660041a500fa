// The positions of the hands in the image, and where actions lead them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "stage.h"

namespace dp_bench::kuavo_dualarm {
namespace {

using Marks = std::vector<float>;  // x and y of the left, then of the right hand

constexpr int kWidth = 320;
constexpr int kHeight = 240;

Marks StateMarks(const KuavoEnv& env) {
  Marks xy(2 * kNumSides);
  env.Marks({}, kWidth, kHeight, xy);
  return xy;
}

Marks ActionMarks(const KuavoEnv& env, std::span<const float> action) {
  Marks xy(2 * kNumSides);
  env.Marks(action, kWidth, kHeight, xy);
  return xy;
}

/// Both arms in other postures that the image shows.
std::vector<float> ReachingAction() {
  std::vector<float> action = HomeAction();
  for (const Side side : kSides) {
    action[Index(side) * kSideDim] -= 0.3F;
    action[Index(side) * kSideDim + 3] += 0.4F;
  }
  return action;
}

TEST(KuavoMarks, HoldingAnActionBringsTheHandsToItsMarks) {
  KuavoEnv env = MakeEnv(R"({"render": "scene"})");
  env.Reset(0);
  const std::vector<float> action = ReachingAction();
  const Marks before = StateMarks(env);
  const Marks wanted = ActionMarks(env, action);
  for (int step = 0; step < 25; ++step) env.Step(action);
  const Marks after = StateMarks(env);
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(after[i], wanted[i], 0.01) << i;
  for (const Side side : kSides) {
    const std::size_t x = 2 * Index(side);
    EXPECT_GT(std::hypot(wanted[x] - before[x], wanted[x + 1] - before[x + 1]), 0.03F)
        << "an action that leads somewhere";
  }
}

TEST(KuavoMarks, TheTileOfTheSceneIsTheUpperLeftQuarter) {
  KuavoEnv tiled = MakeEnv();
  KuavoEnv alone = MakeEnv(R"({"render": "scene"})");
  tiled.Reset(3);
  alone.Reset(3);
  const Marks quarter = StateMarks(tiled);
  const Marks whole = StateMarks(alone);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(quarter[i], whole[i] / 2.0F, 1e-6F);
}

TEST(KuavoMarks, TheHandIsDrawnAtItsMark) {
  KuavoEnv env = MakeEnv(R"({"render": "scene"})");
  env.Reset(0);
  RgbImage before(kWidth, kHeight);
  env.Render(&before);
  const Marks marks = StateMarks(env);
  std::vector<float> action = ReachingAction();
  for (int step = 0; step < 25; ++step) env.Step(action);
  RgbImage after(kWidth, kHeight);
  env.Render(&after);
  // the hands have moved away: within a few pixels of each mark the image changes
  for (const Side side : kSides) {
    const auto x0 = static_cast<int>(marks[2 * Index(side)] * kWidth);
    const auto y0 = static_cast<int>(marks[2 * Index(side) + 1] * kHeight);
    int largest = 0;
    for (int y = y0 - 4; y <= y0 + 4; ++y) {
      for (int x = x0 - 4; x <= x0 + 4; ++x) {
        const auto at = static_cast<std::size_t>(3 * (y * kWidth + x));
        largest = std::max(largest, std::abs(before.pixels[at] - after.pixels[at]));
      }
    }
    EXPECT_GT(largest, 30) << "side " << Index(side);
  }
}

TEST(KuavoMarks, AHandBesideTheImageIsHidden) {
  KuavoEnv env = MakeEnv(R"({"render": "scene"})");
  env.Reset(0);
  Marks xy(2 * kNumSides);
  // an image of the scene so narrow that both hands are outside it
  env.Marks({}, 4, 240, xy);
  for (const float number : xy) EXPECT_TRUE(std::isnan(number)) << number;
}

TEST(KuavoMarks, TargetsAreCutToTheJointRangesAsInAStep) {
  KuavoEnv env = MakeEnv(R"({"render": "scene"})");
  env.Reset(0);
  std::vector<float> beyond = HomeAction();
  std::vector<float> at_the_bound = HomeAction();
  beyond[3] = 5.0F;
  at_the_bound[3] = env.spec().action_high[3];
  const Marks found = ActionMarks(env, beyond);
  const Marks wanted = ActionMarks(env, at_the_bound);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i]))) << i;
  }
}

}  // namespace
}  // namespace dp_bench::kuavo_dualarm
