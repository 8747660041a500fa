// The stored denoising of a plan, and the ranges that observations are compared with.
#include <gtest/gtest.h>

#include <cmath>

#include "dp_bench/stage_trace.h"
#include "evaluate/evaluation.h"
#include "evaluate/policy_planning.h"
#include "planner/policy_planner.h"
#include "support/small_policy.h"
#include "train/fit_normalizer.h"

namespace dp_bench::evaluate {
namespace {

// Scales its noise `n_steps` times; with 0 steps it reports no stages.
class ScalingPolicy : public Policy {
 public:
  explicit ScalingPolicy(int n_steps, double factor = 0.5) : n_steps_(n_steps), factor_(factor) {}
  const PolicySpec& spec() const override { return spec_; }
  void SetNormalizer(const Normalizer&) override {}
  LossOutput ComputeLoss(const Batch&, NoiseSource&) override { return {}; }
  torch::Tensor PredictAction(const TensorMap&, NoiseSource& noise) override {
    const Horizons& horizons = spec_.horizons;
    torch::Tensor sample =
        noise.Randn(StreamId::kPolicyNoise, {noise.batch_size(), horizons.horizon, 2});
    if (n_steps_ > 0) TraceStage("noise", sample);
    for (int i = 0; i < n_steps_; ++i) {
      TraceStage("timestep", torch::tensor(std::int64_t{n_steps_ - 1 - i}));
      sample = factor_ * sample;
      TraceStage("sample", sample);
    }
    return sample.narrow(1, 0, horizons.n_action_steps).contiguous();
  }
  torch::nn::Module& module() override { return module_; }

 private:
  int n_steps_;
  double factor_;
  PolicySpec spec_ = SmallSpec();
  torch::nn::Module module_;
};

control::RecordedObs Recorded(const Policy& policy) {
  control::RecordedObs recorded = SyntheticObs(policy.spec());
  recorded.row = {.seed = 7, .env_step = 8};
  return recorded;
}

TEST(RecordDenoising, KeepsTheSamplesFromNoiseToPlanWithTheirTimesteps) {
  ScalingPolicy policy(3);
  const control::RecordedObs recorded = Recorded(policy);
  const auto denoising = RecordDenoising(policy, torch::kCPU, recorded);
  ASSERT_TRUE(denoising);
  EXPECT_EQ(denoising->seed, 7U);
  EXPECT_EQ(denoising->env_step, 8U);
  EXPECT_EQ(denoising->n_steps, 3);
  EXPECT_EQ(denoising->action_dim, 2);
  ASSERT_EQ(denoising->steps.size(), 4U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(denoising->steps[static_cast<std::size_t>(i)].timestep, 2 - i);
  }
  EXPECT_FALSE(denoising->steps[3].timestep);
  const auto horizon = static_cast<std::size_t>(policy.spec().horizons.horizon);
  EXPECT_EQ(denoising->steps[0].sample.size(), horizon);
  EXPECT_EQ(denoising->steps[3].sample[0][1], 0.125F * denoising->steps[0].sample[0][1]);

  // the same plan as in the rollout
  std::vector<float> actions(static_cast<std::size_t>(policy.spec().horizons.n_action_steps) * 2);
  planner::PolicyPlanner(policy, torch::kCPU, 1).Plan(recorded.obs, {&recorded.row, 1}, actions);
  EXPECT_EQ(denoising->steps[3].sample[0][0], actions[0]);
}

TEST(RecordDenoising, KeepsTenSamplesOfManyWithFirstAndLast) {
  ScalingPolicy policy(100);
  const auto denoising = RecordDenoising(policy, torch::kCPU, Recorded(policy));
  ASSERT_TRUE(denoising);
  EXPECT_EQ(denoising->n_steps, 100);
  ASSERT_EQ(denoising->steps.size(), 10U);
  EXPECT_EQ(denoising->steps[0].timestep, 99);
  EXPECT_EQ(denoising->steps[1].timestep, 88);
  EXPECT_FALSE(denoising->steps[9].timestep);
}

TEST(RecordDenoising, APolicyThatDoesNotDenoiseHasNone) {
  ScalingPolicy policy(0);
  EXPECT_FALSE(RecordDenoising(policy, torch::kCPU, Recorded(policy)));
}

TEST(RecordDenoising, SamplesThatAreNotFiniteAreNotKept) {
  ScalingPolicy policy(2, std::nan(""));
  EXPECT_FALSE(RecordDenoising(policy, torch::kCPU, Recorded(policy)));
}

TEST(ObsRanges, AreThoseOfTheNormalizersLowDimensionalKeys) {
  ShapeMeta meta;
  meta.obs = {{.name = "image", .type = KeyType::kRgb, .shape = {3, 4, 4}, .dtype = DType::kUInt8},
              {.name = "pos", .shape = {2}},
              {.name = "unknown", .shape = {1}},
              {.name = "without_limits", .shape = {1}}};
  const Normalizer normalizer(
      {train::FitKey("image", {}, NormalizeMode::kImage),
       train::FitKey("pos", {.min = {-1.0, 2.0}, .max = {1.0, 4.0}}, NormalizeMode::kLimits),
       train::FitKey("without_limits", {.mean = {0.0}, .std = {1.0}}, NormalizeMode::kGaussian),
       train::FitKey("action", {.min = {0.0}, .max = {1.0}}, NormalizeMode::kLimits)});
  const run::ObsRanges ranges = ObsRangesOf(normalizer, meta);
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges.at("pos").low, (std::vector<double>{-1.0, 2.0}));
  EXPECT_EQ(ranges.at("pos").high, (std::vector<double>{1.0, 4.0}));
}

}  // namespace
}  // namespace dp_bench::evaluate
