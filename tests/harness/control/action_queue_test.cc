// The executed actions between two plans, with and without latency.
#include "control/action_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace dp_bench::control {
namespace {

using testing::ElementsAre;

constexpr int kActionSteps = 8;

// Plan number p has the actions 10 p, 10 p + 1, ... Returns the executed actions, plan after plan,
// with stale ones negative.
std::vector<std::vector<float>> Execute(int n_stale, int n_plans) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, n_stale);
  std::vector<std::vector<float>> executed;
  for (int plan = 0; plan < n_plans; ++plan) {
    queue.Ask();
    for (int i = 0; i < kActionSteps; ++i) {
      queue.chunk()[static_cast<std::size_t>(i)] = static_cast<float>(10 * (plan + 1) + i);
    }
    executed.emplace_back();
    queue.Take();
    for (int i = 0; i < queue.n_steps(); ++i) {
      executed.back().push_back(queue.is_stale(i) ? -queue.action(i)[0] : queue.action(i)[0]);
    }
  }
  return executed;
}

using Steps = std::vector<std::vector<float>>;

TEST(ActionQueue, ExecutesWholeChunksWithoutLatency) {
  EXPECT_EQ(Execute(0, 2),
            (Steps{{10, 11, 12, 13, 14, 15, 16, 17}, {20, 21, 22, 23, 24, 25, 26, 27}}));
}

TEST(ActionQueue, AsksInTimeForTheRestOfTheChunkToLast) {
  EXPECT_EQ(Execute(1, 3), (Steps{{10, 11, 12, 13, 14, 15, 16},
                                  {-17, 21, 22, 23, 24, 25, 26},
                                  {-27, 31, 32, 33, 34, 35, 36}}));
  EXPECT_EQ(Execute(3, 3),
            (Steps{{10, 11, 12, 13, 14}, {-15, -16, -17, 23, 24}, {-25, -26, -27, 33, 34}}));
}

TEST(ActionQueue, HoldsTheLastActionWhereNoneIsLeft) {
  EXPECT_EQ(Execute(5, 3),
            (Steps{{10, 11, 12}, {-13, -14, -15, -16, -17}, {-25, -26, -27, -27, -27}}));
  EXPECT_EQ(Execute(9, 3), (Steps{{10},
                                  {-11, -12, -13, -14, -15, -16, -17, -17, -17},
                                  {-27, -27, -27, -27, -27, -27, -27, -27, -27}}));
}

// A queue that executes the actions 10, 11, ... and has asked for the next plan, 20, 21, ...
ActionQueue QueueAtItsSecondPlan(int n_stale) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, n_stale);
  for (const float plan : {10.0F, 20.0F}) {
    queue.Ask();
    std::iota(queue.chunk().begin(), queue.chunk().end(), plan);
    if (plan == 10.0F) queue.Take();
  }
  return queue;
}

TEST(ActionQueue, StaleStepsAreKnownBeforeThePlan) {
  ActionQueue queue = QueueAtItsSecondPlan(3);
  EXPECT_THAT(queue.steps(), ElementsAre(15, 16, 17));
  queue.Take();
  EXPECT_THAT(queue.steps(), ElementsAre(15, 16, 17, 23, 24));
}

TEST(ActionQueue, ALatePlanBeginsAtTheActionForItsTime) {
  ActionQueue queue = QueueAtItsSecondPlan(3);
  queue.Hold();
  EXPECT_THAT(queue.steps(), ElementsAre(15, 16, 17, 17));
  queue.Take();
  EXPECT_THAT(queue.steps(), ElementsAre(15, 16, 17, 17, 24));
  EXPECT_TRUE(queue.is_stale(3));
  EXPECT_FALSE(queue.is_stale(4));

  queue = QueueAtItsSecondPlan(3);
  for (int i = 0; i < 6; ++i) queue.Hold();
  queue.Take();  // nothing of it is left
  EXPECT_EQ(queue.n_steps(), 9);
  queue.Ask();
  EXPECT_THAT(queue.steps(), ElementsAre(27, 27, 27));
}

TEST(ActionQueue, AFailedPlanLeavesThePreviousChunk) {
  ActionQueue queue = QueueAtItsSecondPlan(3);
  queue.Abandon();
  EXPECT_EQ(queue.n_steps(), 0);
  queue.Ask();
  EXPECT_THAT(queue.steps(), ElementsAre(17, 17, 17));
}

TEST(ActionQueue, AnEpisodeBeginsWithItsFirstChunk) {
  ActionQueue queue(kActionSteps, 1, 2);
  queue.Ask();
  EXPECT_FALSE(queue.can_hold());
  queue.Take();
  EXPECT_TRUE(queue.can_hold());
  queue.Clear();
  queue.Ask();
  EXPECT_EQ(queue.n_steps(), 0);
  queue.Take();
  EXPECT_EQ(queue.n_steps(), 6);
  EXPECT_FALSE(queue.is_stale(0));
}

}  // namespace
}  // namespace dp_bench::control
