// The executed actions between two plans, with and without latency.
#include "control/action_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "dp_bench/spec.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace dp_bench::control {
namespace {

using testing::ElementsAre;

constexpr int kActionSteps = 8;

// Plan number p has the actions 10 p, 10 p + 1, ... Returns the executed actions, plan after plan,
// with stale ones negative.
std::vector<std::vector<float>> Execute(int n_stale, int n_plans) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, std::max(1, kActionSteps - n_stale));
  std::vector<std::vector<float>> executed;
  for (int plan = 0; plan < n_plans; ++plan) {
    queue.Ask(n_stale);
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

TEST(ActionQueue, PlansAsOftenAsItIsTold) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, /*n_execute=*/3);
  queue.Ask(2);
  EXPECT_TRUE(queue.committed().empty());
  std::iota(queue.chunk().begin(), queue.chunk().end(), 10.0F);
  queue.Take();
  EXPECT_THAT(queue.steps(), ElementsAre(10, 11, 12));
  queue.Ask(2);
  EXPECT_THAT(queue.committed(), ElementsAre(13, 14, 15, 16, 17));
  std::iota(queue.chunk().begin(), queue.chunk().end(), 20.0F);
  queue.Take();
  EXPECT_THAT(queue.steps(), ElementsAre(13, 14, 22));  // old[0:d] and new[d:s]
  queue.Ask(4);  // longer than 3 steps: the next plan follows at once
  EXPECT_THAT(queue.committed(), ElementsAre(23, 24, 25, 26, 27));
  std::iota(queue.chunk().begin(), queue.chunk().end(), 30.0F);
  queue.Take();
  EXPECT_THAT(queue.steps(), ElementsAre(23, 24, 25, 26));
}

TEST(ActionQueue, AChunkForItsArrivalIsExecutedFromItsFirstAction) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, /*n_execute=*/5, std::nullopt,
                    /*starts_on_arrival=*/true);
  queue.Ask(3);
  std::iota(queue.chunk().begin(), queue.chunk().end(), 10.0F);
  queue.Take();
  EXPECT_THAT(queue.steps(), ElementsAre(10, 11, 12, 13, 14));
  queue.Ask(3);
  std::iota(queue.chunk().begin(), queue.chunk().end(), 20.0F);
  queue.Take();
  EXPECT_THAT(queue.steps(), ElementsAre(15, 16, 17, 20, 21));
  queue.Ask(3);
  EXPECT_THAT(queue.committed(), ElementsAre(22, 23, 24, 25, 26, 27));
}

TEST(ActionQueue, AUsedUpChunkHasTheHeldActionForAChunkThatStartsOnArrival) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, /*n_execute=*/8, std::nullopt,
                    /*starts_on_arrival=*/true);
  queue.Ask(2);
  EXPECT_TRUE(queue.committed().empty());  // an episode begins
  std::iota(queue.chunk().begin(), queue.chunk().end(), 10.0F);
  queue.Take();
  queue.Ask(2);
  EXPECT_THAT(queue.committed(), ElementsAre(17));
  EXPECT_EQ(queue.n_left(), 0);
}

TEST(ActionQueue, ALateChunkForItsArrivalContinuesWhereItsTimeIs) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, /*n_execute=*/5, std::nullopt,
                    /*starts_on_arrival=*/true);
  for (const float plan : {10.0F, 20.0F}) {
    queue.Ask(3);
    std::iota(queue.chunk().begin(), queue.chunk().end(), plan);
    if (plan == 20.0F) queue.Hold();
    queue.Take();
  }
  EXPECT_THAT(queue.steps(), ElementsAre(15, 16, 17, 17, 21));  // 20 was meant for the fourth step
}

// A queue that executes the actions 10, 11, ... and has asked for the next plan, 20, 21, ...
ActionQueue QueueAtItsSecondPlan(int n_stale) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, std::max(1, kActionSteps - n_stale));
  for (const float plan : {10.0F, 20.0F}) {
    queue.Ask(n_stale);
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
  queue.Ask(3);
  EXPECT_THAT(queue.steps(), ElementsAre(27, 27, 27));
}

TEST(ActionQueue, AFailedPlanLeavesThePreviousChunk) {
  ActionQueue queue = QueueAtItsSecondPlan(3);
  queue.Abandon();
  EXPECT_EQ(queue.n_steps(), 0);
  queue.Ask(3);
  EXPECT_THAT(queue.steps(), ElementsAre(17, 17, 17));
}

TEST(ActionQueue, TheStepOfAFailedPlanPasses) {
  ActionQueue queue(kActionSteps, /*action_dim=*/1, /*n_execute=*/4);
  queue.Ask(0);
  std::iota(queue.chunk().begin(), queue.chunk().end(), 10.0F);
  queue.Take();  // 10 to 13
  queue.Ask(0);
  queue.Abandon();  // in step 4
  queue.Ask(0);     // in step 5
  EXPECT_THAT(queue.committed(), ElementsAre(15, 16, 17));
}

TEST(ActionQueue, AnEpisodeBeginsWithItsFirstChunk) {
  ActionQueue queue(kActionSteps, 1, 6);
  queue.Ask(2);
  EXPECT_FALSE(queue.can_hold());
  queue.Take();
  EXPECT_TRUE(queue.can_hold());
  queue.Clear();
  queue.Ask(2);
  EXPECT_EQ(queue.n_steps(), 0);
  queue.Take();
  EXPECT_EQ(queue.n_steps(), 6);
  EXPECT_FALSE(queue.is_stale(0));
}

// A queue with temporal ensembling, and what it should execute: means over all plans so far, as in
// Zhao et al. 2023, Alg. 2, from the plans themselves.
class Ensemble {
 public:
  Ensemble(double coeff, int n_stale)
      : coeff_(coeff),
        n_stale_(n_stale),
        queue_(kActionSteps, /*action_dim=*/1, kActionSteps - n_stale, coeff) {}

  // Executes the steps until the next plan. The plan's actions are those of `plan`.
  void Execute(const std::vector<float>& plan, int n_holds = 0) {
    queue_.Ask(n_stale_);
    plans_.push_back({.step = step_, .actions = plan});
    for (int i = 0; i < n_holds; ++i) queue_.Hold();
    std::ranges::copy(plan, queue_.chunk().begin());
    queue_.Take();
    for (int i = 0; i < queue_.n_steps(); ++i, ++step_) {
      const std::size_t n_plans = plans_.size() - (queue_.is_stale(i) ? 1 : 0);
      EXPECT_NEAR(queue_.action(i)[0], MeanFor(step_, n_plans), 2e-6) << "step " << step_;
    }
  }

  int step() const { return step_; }
  ActionQueue& queue() { return queue_; }

 private:
  struct TimedPlan {
    int step;  // of its observation
    std::vector<float> actions;
  };

  double MeanFor(int step, std::size_t n_plans) const {
    double sum = 0.0;
    double total = 0.0;
    int age = 0;  // 0: the oldest plan that has an action for this step
    for (std::size_t p = 0; p < n_plans; ++p) {
      const int index = step - plans_[p].step;
      if (index >= kActionSteps) continue;
      const double weight = std::exp(-coeff_ * age++);
      sum += weight * plans_[p].actions[static_cast<std::size_t>(index)];
      total += weight;
    }
    return sum / total;
  }

  double coeff_;
  int n_stale_;
  ActionQueue queue_;
  std::vector<TimedPlan> plans_;
  int step_ = 0;
};

std::vector<float> PlanNumber(int p) {
  std::vector<float> actions;
  for (int i = 0; i < kActionSteps; ++i) {
    actions.push_back(static_cast<float>(std::sin(7.0 * p * p + 3.0 * i)));
  }
  return actions;
}

TEST(ActionQueue, AnEnsembleExecutesTheMeanOfAllPlansForAStep) {
  for (const double coeff : {0.01, 0.0, 1.0, -1.0}) {
    SCOPED_TRACE(coeff);
    Ensemble ensemble(coeff, /*n_stale=*/0);
    for (int p = 0; p < 20; ++p) ensemble.Execute(PlanNumber(p));
    EXPECT_EQ(ensemble.step(), 20);  // a plan for each
  }
}

TEST(ActionQueue, AnEnsembleWithLatencyPlansAsOftenAsItCan) {
  Ensemble ensemble(/*coeff=*/0.1, /*n_stale=*/2);
  for (int p = 0; p < 8; ++p) ensemble.Execute(PlanNumber(p));
  EXPECT_EQ(ensemble.step(), 1 + 7 * 3);  // nothing is stale before the first plan
  ensemble.Execute(PlanNumber(8), /*n_holds=*/2);
  ensemble.Execute(PlanNumber(9));
}

TEST(ActionQueue, AnEnsembleForgetsTheLastEpisodeAndFailedPlans) {
  ActionQueue queue(kActionSteps, 1, kActionSteps, 0.0);
  const auto execute = [&](float value) {
    queue.Ask(0);
    std::ranges::fill(queue.chunk(), value);
    queue.Take();
    return queue.action(0)[0];
  };
  EXPECT_EQ(execute(1.0F), 1.0F);
  queue.Ask(0);
  std::ranges::fill(queue.chunk(), 9.0F);
  queue.Abandon();
  EXPECT_EQ(execute(2.0F), 1.5F);
  queue.Clear();
  EXPECT_EQ(execute(4.0F), 4.0F);
}

TEST(ActionQueue, AnEnsembleOfOnePlanIsRefused) {
  const auto read = [](const char* text) { return Horizons::FromConfig(Config::FromJson(text)); };
  EXPECT_EQ(read("{}").temporal_ensemble_coeff, std::nullopt);
  EXPECT_EQ(read(R"({"temporal_ensemble_coeff": 0.01})").temporal_ensemble_coeff, 0.01);
  EXPECT_THAT(MessageOf(ErrorCode::kConfig,
                        [&] { read(R"({"temporal_ensemble_coeff": 0, "n_action_steps": 1})"); }),
              testing::HasSubstr("n_action_steps is 1: the mean would be of one plan"));
}

// numbers of ACTTemporalEnsembler, from tests/golden/generate/act.py
TEST(ActionQueue, AnEnsembleIsThatOfLerobot) {
  const ArrayMap& golden = Golden("act").tensors;
  const Array& chunks = golden.at("ensemble.chunks");  // [plan, chunk step, Da]
  const auto n_steps = static_cast<int>(chunks.shape()[1]);
  const auto action_dim = static_cast<std::size_t>(chunks.shape()[2]);
  const std::size_t chunk_size = static_cast<std::size_t>(n_steps) * action_dim;
  for (const auto& [name, coeff] : {std::pair<const char*, double>{"ensemble.0.01", 0.01},
                                    {"ensemble.0.0", 0.0},
                                    {"ensemble.-0.5", -0.5}}) {
    SCOPED_TRACE(name);
    ActionQueue queue(n_steps, action_dim, n_steps, coeff);
    for (std::size_t p = 0; p < static_cast<std::size_t>(chunks.shape()[0]); ++p) {
      queue.Ask(0);
      std::ranges::copy(chunks.as<float>().subspan(p * chunk_size, chunk_size),
                        queue.chunk().begin());
      queue.Take();
      ASSERT_EQ(queue.n_steps(), 1);
      for (std::size_t d = 0; d < action_dim; ++d) {
        EXPECT_NEAR(queue.action(0)[d], golden.at(name).as<float>()[p * action_dim + d], 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace dp_bench::control
