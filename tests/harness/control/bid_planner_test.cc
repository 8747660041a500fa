// Bidirectional decoding with a planner whose samples are known.
#include "control/bid_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

namespace dp_bench::control {
namespace {

using testing::ElementsAre;

constexpr int kChunkSteps = 4;

// Sample k of a row with seed s: all actions are s + k; sample `broken` is NaN.
class CountingPlanner : public ChunkPlanner {
 public:
  explicit CountingPlanner(int broken = -1) : broken_(broken) {}
  int batch_size() const override { return 3; }
  void Plan(const ObsBatch&, std::span<const PlanRow> rows, std::span<float> actions) override {
    faults_.assign(rows.size(), "");
    for (std::size_t i = 0; i < 3; ++i) {
      const PlanRow& row = rows[i < rows.size() ? i : 0];
      const bool is_broken = broken_ == static_cast<int>(row.sample);
      if (is_broken && i < rows.size()) faults_[i] = "no answer";
      for (std::size_t step = 0; step < kChunkSteps; ++step) {
        actions[i * kChunkSteps + step] = is_broken ? std::numeric_limits<float>::quiet_NaN()
                                                    : static_cast<float>(row.seed + row.sample);
      }
    }
  }
  std::string FaultOf(std::size_t row) const override { return faults_[row]; }

 private:
  int broken_;
  std::vector<std::string> faults_;
};

std::vector<float> FirstActions(BidPlanner& bid, std::span<const PlanRow> rows) {
  std::vector<float> actions(3 * kChunkSteps);
  bid.Plan({}, rows, actions);
  return {actions[0], actions[kChunkSteps], actions[2 * kChunkSteps]};
}

TEST(BidPlanner, TakesTheSampleThatContinuesTheOldChunkBest) {
  BidPlanner bid(std::make_unique<CountingPlanner>(), /*n_samples=*/8, kChunkSteps,
                 /*action_dim=*/1);
  const std::vector<float> old_5 = {5.2F, 5.2F};
  const std::vector<float> old_102 = {102.0F, 102.0F, 102.0F};
  const PlanRow rows[] = {{.seed = 0, .committed = old_5, .delay = 1},
                          {.seed = 100, .committed = old_102, .delay = 0},
                          {.seed = 7}};
  EXPECT_THAT(FirstActions(bid, rows), ElementsAre(5, 102, 7));  // the last has no old chunk
}

TEST(BidPlanner, StepsThatAreExecutedInAnyCaseWeighMost) {
  BidPlanner bid(std::make_unique<CountingPlanner>(), 8, kChunkSteps, 1);
  const std::vector<float> old = {2.0F, 6.0F, 6.0F};
  const PlanRow early[] = {{.seed = 0, .committed = old, .delay = 1}};
  const PlanRow late[] = {{.seed = 0, .committed = old, .delay = 3}};
  EXPECT_EQ(FirstActions(bid, early)[0], 2);
  EXPECT_EQ(FirstActions(bid, late)[0], 6);
}

TEST(BidPlanner, ASampleWithoutActionsIsNotTaken) {
  BidPlanner bid(std::make_unique<CountingPlanner>(/*broken=*/0), 4, kChunkSteps, 1);
  const PlanRow rows[] = {{.seed = 10}};
  EXPECT_EQ(FirstActions(bid, rows)[0], 11);
  EXPECT_EQ(bid.FaultOf(0), "");

  BidPlanner single(std::make_unique<CountingPlanner>(/*broken=*/0), 1, kChunkSteps, 1);
  EXPECT_TRUE(std::isnan(FirstActions(single, rows)[0]));
  EXPECT_EQ(single.FaultOf(0), "no answer");
}

}  // namespace
}  // namespace dp_bench::control
