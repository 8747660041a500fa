// The robot's own state at the moment in which a plan will be there.
#include "control/roll_forward.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "control/obs_history.h"
#include "support/error_of.h"

namespace dp_bench::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<KeySpec> kRolledKeys = {{.name = "goal", .shape = {1}},
                                          {.name = "pos", .shape = {3}}};

// Two rows of two frames: row 1 has pos (1, 2, 3), (4, 5, 6) and goal 7, 8.
ObsBatch ObservedBatch() {
  ObsBatch obs = MakeObsBatch(kRolledKeys, /*n_rows=*/2, /*n_obs_steps=*/2);
  const std::vector<float> pos = {1, 2, 3, 4, 5, 6};
  const std::vector<float> goal = {7, 8};
  std::ranges::copy(pos, obs.find("pos")->second.as<float>().begin() + 6);
  std::ranges::copy(goal, obs.find("goal")->second.as<float>().begin() + 2);
  return obs;
}

std::vector<float> RolledPos(int delay, std::size_t n_committed) {
  const std::vector<float> actions = {10, 20, 11, 21, 12, 22};  // of two dimensions
  ObsBatch obs = ObservedBatch();
  const PlanRow row = {.committed = std::span(actions).first(2 * n_committed), .delay = delay};
  RollForward({{"pos", {1, -1, 0}}}, row, /*action_dim=*/2, /*place=*/1, &obs);
  const auto goal = obs.find("goal")->second.as<float>();
  EXPECT_THAT(std::vector<float>(goal.begin(), goal.end()), ElementsAre(0, 0, 7, 8));
  const auto pos = obs.find("pos")->second.as<float>();
  EXPECT_THAT(std::vector<float>(pos.begin(), pos.begin() + 6), testing::Each(0));
  return {pos.begin() + 6, pos.end()};
}

TEST(RollForward, TheLastFrameIsWhereTheLastCommittedActionLeads) {
  EXPECT_THAT(RolledPos(2, 3), ElementsAre(20, 2, 10, 21, 5, 11));
  EXPECT_THAT(RolledPos(3, 3), ElementsAre(21, 2, 11, 22, 5, 12));
}

TEST(RollForward, WithADelayOfOneStepTheObservedFrameMovesBack) {
  EXPECT_THAT(RolledPos(1, 3), ElementsAre(4, 2, 6, 20, 5, 10));
}

TEST(RollForward, WhereTheChunkEndsItsLastActionIsHeld) {
  EXPECT_THAT(RolledPos(5, 2), ElementsAre(21, 2, 11, 21, 5, 11));
}

TEST(RollForward, NothingMovesBeforeTheFirstChunkAndWithoutDelay) {
  EXPECT_THAT(RolledPos(3, 0), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(RolledPos(0, 3), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(RollForward, WhatDoesNotFitIsRefused) {
  const ShapeMeta meta = {.obs = kRolledKeys, .action = {.name = "action", .shape = {2}}};
  const auto message = [&](const FollowedActions& followed) {
    return MessageOf(ErrorCode::kConfig, [&] { RequireFits(followed, meta); });
  };
  EXPECT_THAT(message({}), HasSubstr("found nothing"));
  EXPECT_THAT(message({{"arm", {0}}}), HasSubstr("found none of this name"));
  EXPECT_THAT(message({{"pos", {0, 1}}}), HasSubstr("with 2 elements, found 3"));
  EXPECT_THAT(message({{"goal", {2}}}), HasSubstr("indices from -1 to 1, found 2 to 2"));
  RequireFits({{"pos", {0, 1, -1}}}, meta);
}

}  // namespace
}  // namespace dp_bench::control
