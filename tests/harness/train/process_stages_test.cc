// The diffusion process of a loss: what the SDK's scheduler notes, the predicted x_0, the ranges.
#include "train/process_stages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "core/communicator.h"
#include "policy/stage_recorder.h"

namespace dp_bench::train {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Key;
using testing::Not;

constexpr std::int64_t kRows = 64;

const char* StageOf(PredictionType type) {
  if (type == PredictionType::kEpsilon) return "predicted noise";
  return type == PredictionType::kSample ? "predicted action" : "predicted velocity";
}

/// A loss whose network is perfect.
ProcessStages PerfectLoss(PredictionType type) {
  torch::manual_seed(5);
  const NoiseScheduler scheduler({.prediction_type = type});
  ProcessStages stages;
  const policy::StageRecorder recorder(std::bind_front(&ProcessStages::Note, &stages));
  const torch::Tensor x_0 = torch::randn({kRows, 4, 2});
  const torch::Tensor noise = torch::randn_like(x_0);
  const torch::Tensor t = (torch::arange(kRows) * 100).div(kRows, "floor");
  TraceStage("normalized action", x_0);
  TraceStage("noise", noise);
  TraceStage("timesteps", t);
  TraceStage("condition", torch::full({kRows, 6}, 0.25));
  TraceStage("noisy action", scheduler.AddNoise(x_0, noise, t));
  TraceStage(StageOf(type), scheduler.Target(x_0, noise, t));
  return stages;
}

class PredictedX0Of : public testing::TestWithParam<PredictionType> {};

TEST_P(PredictedX0Of, APerfectNetworkIsX0AtLowTimesteps) {
  const ProcessStages stages = PerfectLoss(GetParam());
  const torch::Tensor predicted = PredictedX0(stages);
  ASSERT_GT(predicted.size(0), kRows / 4);
  ASSERT_LT(predicted.size(0), kRows);
  EXPECT_LT((predicted - stages.x_0.narrow(0, 0, predicted.size(0))).abs().max().item<double>(),
            1e-5);
}

INSTANTIATE_TEST_SUITE_P(EveryType, PredictedX0Of,
                         testing::Values(PredictionType::kEpsilon, PredictionType::kSample,
                                         PredictionType::kVPrediction));

TEST(ProcessStages, HaveTheTablesThatTheSchedulerUsed) {
  const ProcessStages stages = PerfectLoss(PredictionType::kEpsilon);
  const NoiseScheduler scheduler((NoiseSchedulerConfig()));
  ASSERT_EQ(stages.alphas_cumprod.numel(), 100);
  ASSERT_EQ(stages.betas.numel(), 100);
  for (int t = 0; t < 100; ++t) {
    EXPECT_NEAR(stages.alphas_cumprod[t].item<double>(),
                scheduler.alphas_cumprod()[static_cast<std::size_t>(t)], 1e-12);
  }
}

TEST(ProcessStages, GiveNoPredictedX0WithATableThatIsTooShort) {
  ProcessStages stages = PerfectLoss(PredictionType::kEpsilon);
  stages.alphas_cumprod = stages.alphas_cumprod.narrow(0, 0, 50);
  EXPECT_FALSE(PredictedX0(stages).defined());
}

TEST(ProcessRanges, CoverEveryTensorOfTheProcess) {
  core::SingleProcess alone;
  const auto ranges = ProcessRanges(PerfectLoss(PredictionType::kEpsilon), DataParallel(alone));
  EXPECT_EQ(ranges.size(), 28U);
  EXPECT_NEAR(ranges.at("x0_std"), 1.0, 0.1);
  EXPECT_NEAR(ranges.at("noise_mean"), 0.0, 0.1);
  EXPECT_LT(ranges.at("predicted_x0_min"), -1.5);
  EXPECT_GT(ranges.at("xt_max"), 1.5);
  EXPECT_EQ(ranges.at("condition_mean"), 0.25);
  EXPECT_EQ(ranges.at("output_max"), ranges.at("noise_max")) << "the network is perfect";
  EXPECT_EQ(ranges.at("t_min"), 0.0);
  EXPECT_EQ(ranges.at("t_max"), 98.0);
}

TEST(ProcessRanges, AreNanForATensorThatIsNotFinite) {
  core::SingleProcess alone;
  ProcessStages stages = PerfectLoss(PredictionType::kEpsilon);
  stages.x_0[3][0][0] = std::numeric_limits<float>::infinity();
  const auto ranges = ProcessRanges(stages, DataParallel(alone));
  EXPECT_TRUE(std::isnan(ranges.at("x0_max")));
  EXPECT_TRUE(std::isfinite(ranges.at("noise_max")));
}

TEST(ProcessRanges, LeaveOutWhatThePolicyDoesNotNote) {
  core::SingleProcess alone;
  EXPECT_TRUE(ProcessRanges({}, DataParallel(alone)).empty());
  ProcessStages stages;
  stages.Note("noise", torch::ones({2, 3}));
  EXPECT_THAT(ProcessRanges(stages, DataParallel(alone)),
              AllOf(Contains(Key("noise_min")), Not(Contains(Key("x0_min")))));
}

}  // namespace
}  // namespace dp_bench::train
