// What PushtEnv adds to the physics: params, observations, scores.
#include "pusht_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "coverage.h"
#include "make_env.h"
#include "support/error_of.h"

namespace dp_bench::pusht {
namespace {

/// At rest, with the agent in a corner of the arena.
void Place(PushtEnv& env, const Pose& block) {
  const std::vector<double> state = {30, 30, 0, 0, block.x, block.y, block.angle, 0, 0, 0};
  env.SetState(state);
}

StepResult StepWithBlockAt(PushtEnv& env, const Pose& block) {
  Place(env, block);
  return env.Step(std::vector<float>{30.0F, 30.0F});
}

TEST(PushtEnv, OffersTheObservationsAskedForInAlphabeticalOrder) {
  const PushtEnv env = Make(R"({"obs": ["state", "image", "agent_pos"]})");
  std::vector<std::string> names;
  for (const KeySpec& key : env.spec().shape_meta.obs) names.push_back(key.name);
  EXPECT_THAT(names, testing::ElementsAre("agent_pos", "image", "state"));
  EXPECT_EQ(env.spec().shape_meta.obs[1].shape, (Shape{3, 96, 96}));
}

TEST(PushtEnv, NamesTheObservationsThatItHas) {
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [] { Make(R"({"obs": ["keypoints"]})"); }),
              testing::HasSubstr("image, keypoint, state"));
  EXPECT_THROW(Make(R"({"obs": []})"), Error);
  EXPECT_THROW(Make(R"({"obs": ["state", "state"]})"), Error);
}

// numbers of gym-pusht 0.1.8: get_keypoints for a block at that pose
TEST(PushtEnv, EnvironmentStateHasTheCornersInTheOrderOfGymPusht) {
  PushtEnv env = Make(R"({"obs": ["environment_state"]})");
  Place(env, {200.0, 300.0, 0.5});
  const std::vector<float> expected = {147.34505F, 271.23447F, 252.65495F, 328.76553F,
                                       238.27219F, 355.09301F, 132.96228F, 297.56194F,
                                       172.45350F, 319.13609F, 198.78097F, 333.51886F,
                                       155.63267F, 412.50129F, 129.30520F, 398.11852F};
  const std::vector<float> corners = Look(env);
  ASSERT_EQ(corners.size(), expected.size());
  for (std::size_t i = 0; i < corners.size(); ++i) EXPECT_NEAR(corners[i], expected[i], 1e-4) << i;
}

TEST(PushtEnv, StateWrapsTheAngleLikePythonsRemainder) {
  PushtEnv env = Make(R"({"obs": ["state"]})");
  Place(env, {200.0, 300.0, -1.0});
  EXPECT_THAT(Look(env),
              testing::Pointwise(testing::FloatEq(),
                                 std::vector<float>{30, 30, 200, 300, 2 * 3.14159265F - 1}));
}

TEST(PushtEnv, KeypointsAreTheDataSetsAtItsFirstStep) {
  // state and keypoints of the first recorded step
  PushtEnv env = Make(R"({"obs": ["keypoint"]})");
  Place(env, {222.99382, 381.59903, 3.0079994});
  const std::vector<float> recorded = {
      201.81350708F, 293.59506226F, 283.59197998F, 374.65240479F, 162.80940247F, 391.09332275F,
      219.85960388F, 356.24697876F, 220.57481384F, 258.00411987F, 179.96212769F, 354.22940063F,
      258.24465942F, 343.83761597F, 231.29512024F, 317.05505371F, 199.88859558F, 386.4197998F};
  EXPECT_THAT(Look(env), testing::Pointwise(testing::FloatNear(2e-4F), recorded));
}

TEST(PushtEnv, SucceedsOnlyAboveTheCoverageThreshold) {
  PushtEnv env = Make();
  const StepResult there = StepWithBlockAt(env, kGoalPose);
  EXPECT_TRUE(there.success && there.terminated);
  EXPECT_EQ(there.reward, 1.0);
  EXPECT_THROW(env.Step(std::vector<float>{30.0F, 30.0F}), Error);

  const Pose beside = {kGoalPose.x + 40.0, kGoalPose.y, kGoalPose.angle};
  const StepResult near = StepWithBlockAt(env, beside);
  EXPECT_FALSE(near.success || near.terminated);
  EXPECT_NEAR(near.reward, Coverage(beside) / 0.95, 1e-12);
  EXPECT_EQ(near.metrics[0], Coverage(beside));
}

TEST(PushtEnv, TheThresholdIsAParam) {
  PushtEnv env = Make(R"({"success_threshold": 0.2})");
  EXPECT_TRUE(StepWithBlockAt(env, {kGoalPose.x + 20.0, kGoalPose.y, kGoalPose.angle}).success);
}

TEST(PushtEnv, TheAgentGoesWhereThePointerIs) {
  PushtEnv env = Make(R"({"obs": ["agent_pos"]})");
  Place(env, {400.0, 400.0, 0.0});
  std::vector<float> action(2);
  env.PointerAction(0.25, 0.5, action);
  for (int i = 0; i < 30; ++i) env.Step(action);
  EXPECT_THAT(Look(env), testing::Pointwise(testing::FloatNear(1.0F), {128.0F, 256.0F}));
  std::vector<float> wrong(3);
  EXPECT_THROW(env.PointerAction(0.25, 0.5, wrong), Error);
}

TEST(PushtEnv, TheStatesMarkEndsWhereTheActionsMarkIs) {
  PushtEnv env = Make();
  Place(env, {400.0, 400.0, 0.0});
  const std::vector<float> action = {128.0F, 256.0F};
  for (const int width : {512, 1024}) {  // the world is in the middle of a wide image
    std::vector<float> target(2);
    std::vector<float> mark(2);
    env.Marks(action, width, 512, target);
    EXPECT_EQ(target[0] * static_cast<float>(width), 128.0F + static_cast<float>(width - 512) / 2);
    EXPECT_EQ(target[1], 0.5F);
    for (int i = 0; i < 30; ++i) env.Step(action);
    env.Marks({}, width, 512, mark);
    EXPECT_NEAR(mark[0], target[0], 2.0 / width);
    EXPECT_NEAR(mark[1], target[1], 2.0 / 512);
  }
}

TEST(PushtEnv, TheAgentIsDrawnAtItsMark) {
  PushtEnv env = Make();
  Place(env, {300.0, 300.0, 0.0});
  RgbImage frame(120, 96);
  env.Render(&frame);
  std::vector<float> mark(2);
  env.Marks({}, frame.width, frame.height, mark);
  const auto x = static_cast<int>(mark[0] * static_cast<float>(frame.width));
  const auto y = static_cast<int>(mark[1] * static_cast<float>(frame.height));
  const std::uint8_t* const pixel = &frame.pixels[static_cast<std::size_t>(3 * (y * 120 + x))];
  EXPECT_GT(pixel[2], pixel[0] + 100) << "the agent is blue";
}

TEST(PushtEnv, AnActionBesideTheImageHasNoMark) {
  PushtEnv env = Make();
  env.Reset(0);
  std::vector<float> mark(2);
  env.Marks(std::vector<float>{-3.0F, 100.0F}, 96, 96, mark);
  EXPECT_TRUE(std::isnan(mark[0]) && std::isnan(mark[1]));
}

TEST(PushtEnv, TheBlocksOriginIsWhereItWasDrawnUnlessTheOrderIsLegacy) {
  const PushtState plain = StartState(42, /*legacy_order=*/false);
  const PushtState legacy = StartState(42, /*legacy_order=*/true);
  EXPECT_EQ(plain.block.x, std::round(plain.block.x));
  EXPECT_EQ(plain.block.angle, legacy.block.angle);
  // turned about the centre of gravity, 45 px below the origin of the upright block
  EXPECT_NEAR(std::hypot(legacy.block.x - plain.block.x, legacy.block.y - plain.block.y - 45.0),
              45.0, 1e-9);
}

}  // namespace
}  // namespace dp_bench::pusht
