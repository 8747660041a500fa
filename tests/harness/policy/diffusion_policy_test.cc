// The weights of the horizon's steps and of the timesteps in the loss, and conditioning by
// inpainting.
#include "dp_bench/policy/networks/diffusion_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "policy/noise_scheduler.h"
#include "support/error_of.h"
#include "support/small_policy.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHorizon = 8;  // of SmallSpec
constexpr double kTolerance = 1e-6;   // float32 sums of order 1

/// The position times a parameter that is one.
class PositionEncoder : public ObsEncoder {
 public:
  explicit PositionEncoder(torch::nn::Module& module)
      : gain_(module.register_parameter("gain", torch::ones({1}))) {}
  std::int64_t feature_dim() const override { return 2; }
  torch::Tensor Encode(const TensorMap& obs, const Normalizer&, NoiseSource*) override {
    return obs.find("agent_pos")->second * gain_;
  }
  void set_gradient_checkpointing(bool) override {}

 private:
  torch::Tensor gain_;
};

/// Initially predicts zeros. Keeps what it was given last.
class ScalingDenoiser : public Denoiser {
 public:
  explicit ScalingDenoiser(torch::nn::Module& module)
      : scale_(module.register_parameter("scale", torch::zeros({1}))) {}
  torch::Tensor Forward(const torch::Tensor& noisy, const torch::Tensor& timesteps,
                        const torch::Tensor& cond, NoiseSource*) override {
    last_noisy = noisy;
    last_timesteps = timesteps;
    last_cond = cond;
    return noisy * scale_;
  }
  ConditionedDenoiser Condition(const std::vector<double>&, const torch::Tensor&) override {
    return [](const torch::Tensor& naction, std::int64_t) { return naction; };
  }
  void DropCaches() override {}
  void set_gradient_checkpointing(bool) override {}

  torch::Tensor last_noisy;
  torch::Tensor last_timesteps;
  torch::Tensor last_cond;

 private:
  torch::Tensor scale_;
};

std::unique_ptr<DiffusionPolicy> MakePolicy(const std::string& params,
                                            const char* prediction_type = "sample") {
  DiffusionPolicy::Model model;
  model.obs_encoder = std::make_unique<PositionEncoder>(*model.module);
  model.denoiser = std::make_unique<ScalingDenoiser>(*model.module);
  const Config config = Config::FromJson(R"({"noise_scheduler": {"prediction_type": ")" +
                                             std::string(prediction_type) + "\"}" + params + "}",
                                         "policy.json");
  model.channels = DenoiserChannels::FromConfig(config, SmallSpec(), 2);
  auto policy = std::make_unique<DiffusionPolicy>("test", config, SmallSpec(), std::move(model));
  config.RejectUnread();
  policy->SetNormalizer(SmallNormalizer());
  return policy;
}

ScalingDenoiser& DenoiserOf(DiffusionPolicy& policy) {
  return dynamic_cast<ScalingDenoiser&>(policy.denoiser());
}

/// The loss of predicting zeros for `action`, [3, T, 2]; the last two steps are padding.
float LossOf(const std::string& params, const torch::Tensor& action) {
  const auto policy = MakePolicy(params);
  Batch batch = ZeroBatch(3);
  batch.action = action;
  batch.is_pad.slice(1, kHorizon - 2).fill_(true);
  NoiseSource noise = NoiseOfRows(3);
  return policy->ComputeLoss(batch, noise).loss.item<float>();
}

/// One at a single step and zero elsewhere: the loss times T is that step's weight.
double WeightOf(std::int64_t step, const std::string& params) {
  torch::Tensor action = torch::zeros({3, kHorizon, 2});
  action.select(1, step).fill_(1.0);
  return static_cast<double>(LossOf(params, action)) * static_cast<double>(kHorizon);
}

TEST(LossChunkWeights, ConstantOnesChangeNothing) {
  const torch::Tensor action = torch::linspace(-1.0, 1.0, 3 * kHorizon * 2).view({3, kHorizon, 2});
  for (const char* mask : {"", R"(, "do_mask_loss_for_padding": true)"}) {
    const float plain = LossOf(mask, action);
    const std::string params = mask;
    EXPECT_EQ(LossOf(params + R"(, "loss_chunk_weights": [3, 3, 3, 3, 3, 3, 3, 3])", action),
              plain);
    EXPECT_EQ(LossOf(params + R"(, "loss_chunk_decay": 1.0)", action), plain);
  }
}

TEST(LossChunkWeights, AreScaledToMeanOne) {
  const std::string params = R"(, "loss_chunk_weights": [4, 2, 1, 1, 0, 0, 0, 0])";
  EXPECT_NEAR(WeightOf(0, params), 4.0, kTolerance);
  EXPECT_NEAR(WeightOf(1, params), 2.0, kTolerance);
  EXPECT_NEAR(WeightOf(3, params), 1.0, kTolerance);
  EXPECT_EQ(WeightOf(4, params), 0.0);
}

TEST(LossChunkWeights, DecayFallsByOneFactorPerStep) {
  const std::string params = R"(, "loss_chunk_decay": 0.9)";
  double sum = 0.0;
  for (int t = 0; t < kHorizon; ++t) sum += std::pow(0.9, t);
  for (const int t : {0, 1, 7}) {
    EXPECT_NEAR(WeightOf(t, params), std::pow(0.9, t) * kHorizon / sum, kTolerance) << t;
  }
}

TEST(LossChunkWeights, PaddedStepsStayAtZero) {
  const std::string params =
      R"(, "loss_chunk_weights": [1, 1, 1, 1, 1, 1, 1, 9], "do_mask_loss_for_padding": true)";
  EXPECT_EQ(WeightOf(7, params), 0.0);
  EXPECT_NEAR(WeightOf(0, params), 0.5, kTolerance);
}

TEST(LossChunkWeights, ThatDoNotFitTheHorizonAreAnError) {
  const auto error_of = [](const char* params) {
    return MessageOf(ErrorCode::kConfig, [&] { MakePolicy(params); });
  };
  EXPECT_THAT(
      error_of(R"(, "loss_chunk_weights": [1, 2])"),
      HasSubstr("loss_chunk_weights: expected 8 numbers, one per step of the horizon, found "
                "2"));
  EXPECT_THAT(error_of(R"(, "loss_chunk_weights": [1, 1, 1, 1, 1, 1, 1, -1])"),
              HasSubstr("non-negative numbers, at least one greater than 0"));
  EXPECT_THAT(error_of(R"(, "loss_chunk_weights": [0, 0, 0, 0, 0, 0, 0, 0])"),
              HasSubstr("non-negative numbers, at least one greater than 0"));
  EXPECT_THAT(error_of(R"(, "loss_chunk_weights": [1], "loss_chunk_decay": 0.5)"),
              HasSubstr("found both"));
  EXPECT_THAT(error_of(R"(, "loss_chunk_decay": 0)"), HasSubstr("loss_chunk_decay"));
}

// Hang et al. 2023, Sec. 3.4, row by row
TEST(LossWeighting, EachRowCountsByItsTimestep) {
  const auto policy = MakePolicy(R"(, "loss_weighting": "min_snr", "snr_gamma": 2)");
  const NoiseScheduler scheduler(NoiseSchedulerConfig{});
  Batch batch = ZeroBatch(16);
  batch.action.fill_(1.0);
  NoiseSource noise = NoiseOfRows(16);
  const double loss = policy->ComputeLoss(batch, noise).loss.item<double>();
  double expected = 0.0;
  int n_limited = 0;
  for (std::int64_t row = 0; row < 16; ++row) {
    const auto t = DenoiserOf(*policy).last_timesteps[row].item<std::int64_t>();
    const double alpha_bar = scheduler.alphas_cumprod()[static_cast<std::size_t>(t)];
    const double snr = alpha_bar / (1.0 - alpha_bar);
    n_limited += snr > 2.0 ? 1 : 0;
    expected += std::min(snr, 2.0) / 16.0;
  }
  EXPECT_NEAR(loss, expected, kTolerance);
  EXPECT_GT(n_limited, 0);
  EXPECT_LT(n_limited, 16);
}

constexpr const char* kInpainting = R"(, "obs_as_global_cond": false)";

/// Observations of all T steps.
Batch InpaintingBatch(std::int64_t rows) {
  return {.obs = {{"agent_pos",
                   torch::linspace(-0.9, 0.9, rows * kHorizon * 2).view({rows, kHorizon, 2})}},
          .action = torch::linspace(-0.5, 0.7, rows * kHorizon * 2).view({rows, kHorizon, 2}),
          .is_pad = torch::zeros({rows, kHorizon}, torch::kBool)};
}

TEST(Inpainting, TheNetworkSeesTheObservedStepsWithoutNoiseAndNothingBeside) {
  const auto policy = MakePolicy(kInpainting);
  EXPECT_EQ(policy->n_train_obs_steps(), kHorizon);
  EXPECT_EQ(MakePolicy("")->n_train_obs_steps(), 2);
  const Batch batch = InpaintingBatch(3);
  NoiseSource noise = NoiseOfRows(3);
  policy->ComputeLoss(batch, noise);
  const torch::Tensor noisy = DenoiserOf(*policy).last_noisy;
  const torch::Tensor obs = batch.obs.at("agent_pos");
  ASSERT_EQ(noisy.sizes(), torch::IntArrayRef({3, kHorizon, 4}));
  EXPECT_EQ(DenoiserOf(*policy).last_cond.numel(), 0);
  EXPECT_TRUE(torch::equal(noisy.slice(2, 2).slice(1, 0, 2), obs.slice(1, 0, 2)));
  // the observations after the current step and the whole action have noise
  EXPECT_GT((noisy.slice(2, 2).slice(1, 2) - obs.slice(1, 2)).abs().min().item<double>(), 0.0);
  EXPECT_GT((noisy.slice(2, 0, 2) - batch.action).abs().min().item<double>(), 0.0);
}

// as upstream's loss_mask: what the network was given counts as zero
TEST(Inpainting, TheLossCountsTheActionAndTheObservationsThatWereNotGiven) {
  const auto policy = MakePolicy(kInpainting);
  const Batch batch = InpaintingBatch(3);
  NoiseSource noise = NoiseOfRows(3);
  const double loss = policy->ComputeLoss(batch, noise).loss.item<double>();  // predicts zeros
  const torch::Tensor hidden = batch.obs.at("agent_pos").slice(1, 2);
  const double expected =
      (batch.action.square().sum() + hidden.square().sum()).item<double>() / (3.0 * kHorizon * 4.0);
  EXPECT_NEAR(loss, expected, kTolerance);
}

// else the encoder could lower the loss by giving every observation the same features
TEST(Inpainting, WhatTheNetworkHasToPredictDoesNotTrainTheEncoder) {
  const auto policy = MakePolicy(kInpainting);
  {
    const torch::NoGradGuard no_grad;
    policy->module().named_parameters()["diffusion.scale"].fill_(0.5);
  }
  NoiseSource noise = NoiseOfRows(3);
  policy->ComputeLoss(InpaintingBatch(3), noise).loss.backward();
  // this network treats each step alone, so nothing of the given steps reaches the loss
  EXPECT_EQ(policy->module().named_parameters()["diffusion.gain"].grad().item<double>(), 0.0);
  EXPECT_NE(policy->module().named_parameters()["diffusion.scale"].grad().item<double>(), 0.0);
}

TEST(Inpainting, TheSampledTrajectoryHoldsTheConditionExactly) {
  for (const char* prediction_type : {"epsilon", "sample", "v_prediction"}) {
    const auto policy = MakePolicy(kInpainting, prediction_type);
    const torch::Tensor features = InpaintingBatch(3).obs.at("agent_pos").slice(1, 0, 2);
    NoiseSource noise = NoiseOfRows(3);
    const torch::Tensor initial = noise.Randn(StreamId::kPolicyNoise, {3, kHorizon, 4});
    const torch::Tensor sampled = policy->ConditionalSample(features, initial, noise);
    ASSERT_EQ(sampled.sizes(), initial.sizes());
    EXPECT_TRUE(torch::equal(sampled.slice(2, 2).slice(1, 0, 2), features)) << prediction_type;
    EXPECT_EQ(policy->PredictAction({{"agent_pos", features}}, noise).sizes(),
              torch::IntArrayRef({3, 4, 2}));
  }
}

TEST(Inpainting, ABatchWithoutTheLaterObservationsIsAnError) {
  const auto policy = MakePolicy(kInpainting);
  Batch batch = InpaintingBatch(3);
  batch.obs["agent_pos"] = batch.obs["agent_pos"].slice(1, 0, 2);
  NoiseSource noise = NoiseOfRows(3);
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { policy->ComputeLoss(batch, noise); }),
              HasSubstr("'agent_pos' must be [B, 8, 2]"));
}

}  // namespace
}  // namespace dp_bench::policy
