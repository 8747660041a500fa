// Measuring latency does not change results, and the stages are named.
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "evaluate/policy_planning.h"
#include "planner/policy_planner.h"
#include "support/small_policy.h"
#include "train/batches.h"

namespace dp_bench::evaluate {
namespace {

// Its actions are noise plus the position; it names two stages.
class StagedPolicy : public Policy {
 public:
  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer&) override {}
  LossOutput ComputeLoss(const Batch&, NoiseSource&) override { return {}; }
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    batch_sizes.push_back(noise.batch_size());
    torch::Tensor pos;
    {
      RECORD_USER_SCOPE("observation encoding");
      pos = obs.find("agent_pos")->second.select(1, 1).unsqueeze(1);
    }
    torch::Tensor sum = noise.Randn(StreamId::kPolicyNoise, {noise.batch_size(), 4, 2});
    for (int i = 0; i < 3; ++i) {
      RECORD_USER_SCOPE("denoising step");
      sum = sum + pos;
    }
    return sum;
  }
  torch::nn::Module& module() override { return module_; }

  std::vector<std::int64_t> batch_sizes;

 private:
  PolicySpec spec_ = SmallSpec();
  torch::nn::Module module_;
};

TEST(TimedPlanner, PlansTheSameAndTakesTheTimeOfEachStage) {
  constexpr int kRows = 4;
  StagedPolicy policy;
  planner::PolicyPlanner planner(policy, torch::kCPU, kRows);
  const control::ObsBatch obs = train::SyntheticBatch(policy.spec(), kRows).obs;
  const std::vector<control::PlanRow> rows = {{.seed = 7, .env_step = 8},
                                              {.seed = 9, .env_step = 16}};
  std::vector<float> plain(kRows * 4 * 2);
  std::vector<float> timed_actions(plain.size());
  planner.Plan(obs, rows, plain);
  TimedPlanner timed(planner, torch::kCPU);
  for (int i = 0; i < 40; ++i) timed.Plan(obs, rows, timed_actions);
  EXPECT_EQ(timed_actions, plain);

  EXPECT_EQ(timed.latency().batch_size, kRows);
  EXPECT_EQ(timed.latency().chunk_s.size(), 40U);
  EXPECT_EQ(timed.latency().stage_s.at("denoising step").size(), 120U);
  EXPECT_EQ(timed.latency().stage_s.at("observation encoding").size(), 40U);

  // the first row of each, until there are enough
  ASSERT_EQ(timed.recorded().size(), 32U);
  const control::RecordedObs& recorded = timed.recorded()[0];
  EXPECT_EQ(recorded.row.seed, 7U);
  const Array& pos = recorded.obs.find("agent_pos")->second;
  EXPECT_EQ(pos.shape(), (Shape{1, 2, 2}));
  EXPECT_TRUE(std::ranges::equal(pos.bytes(),
                                 obs.find("agent_pos")->second.bytes().first(pos.byte_size())));
}

TEST(PlanningAlone, IsTimedRowByRowAfterAWarmUp) {
  StagedPolicy policy;
  const std::vector<control::RecordedObs> rows = {SyntheticObs(policy.spec())};
  const run::PlanningLatency latency = MeasurePlanningAlone(policy, torch::kCPU, {}, rows);
  EXPECT_EQ(latency.batch_size, 1);
  EXPECT_EQ(latency.chunk_s.size(), 48U);
  EXPECT_EQ(policy.batch_sizes, std::vector<std::int64_t>(50, 1));
}

TEST(PlanningAlone, IsTimedWithTheSamplesOfBid) {
  StagedPolicy policy;
  const std::vector<control::RecordedObs> rows = {SyntheticObs(policy.spec())};
  const control::ChunkingConfig bid = {.method = control::ChunkingMethod::kBid, .n_samples = 3};
  const run::PlanningLatency latency = MeasurePlanningAlone(policy, torch::kCPU, bid, rows);
  EXPECT_EQ(policy.batch_sizes.size(), 3 * (2 + latency.chunk_s.size()));  // two warm up
}

// Its server is gone after the first `n_answers` plans.
class LostPolicy final : public StagedPolicy {
 public:
  explicit LostPolicy(int n_answers) : n_answers_(n_answers) {}
  torch::Tensor PredictAction(const TensorMap& obs, NoiseSource& noise) override {
    if (n_answers_-- <= 0) fault_ = "policy_disconnected: refused";
    return StagedPolicy::PredictAction(obs, noise);
  }
  std::vector<std::string> RowFaults() const override { return {fault_}; }

 private:
  int n_answers_;
  std::string fault_;
};

TEST(PlanningAlone, EndsAtTheFirstPlanWithoutActions) {
  LostPolicy policy(/*n_answers=*/6);
  const std::vector<control::RecordedObs> rows = {SyntheticObs(policy.spec())};
  EXPECT_EQ(MeasurePlanningAlone(policy, torch::kCPU, {}, rows).chunk_s.size(), 4U);  // two warm up
  EXPECT_EQ(policy.batch_sizes.size(), 7U);
  EXPECT_EQ(MeasurePlanningAlone(policy, torch::kCPU, {}, rows).chunk_s.size(), 0U);
  EXPECT_EQ(policy.batch_sizes.size(), 8U);
}

TEST(PlanningAlone, WithoutAnyActionsIsAnErrorThatSaysWhy) {
  LostPolicy policy(/*n_answers=*/0);
  const std::vector<control::RecordedObs> rows = {SyntheticObs(policy.spec())};
  EXPECT_THAT([&] { RequireLatencyAlone(policy, torch::kCPU, {}, rows); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("policy_disconnected: refused")));
}

TEST(TimedPlanner, LeavesOutPlansWithAFault) {
  LostPolicy policy(/*n_answers=*/1);
  planner::PolicyPlanner planner(policy, torch::kCPU, 1);
  TimedPlanner timed(planner, torch::kCPU);
  const control::RecordedObs row = SyntheticObs(policy.spec());
  std::vector<float> actions(4 * 2);
  for (int i = 0; i < 3; ++i) timed.Plan(row.obs, {&row.row, 1}, actions);
  EXPECT_EQ(timed.latency().chunk_s.size(), 1U);
  EXPECT_EQ(timed.recorded().size(), 1U);
}

}  // namespace
}  // namespace dp_bench::evaluate
