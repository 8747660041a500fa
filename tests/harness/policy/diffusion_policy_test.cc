// The weights of the horizon's steps in the loss.
#include "dp_bench/policy/networks/diffusion_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "support/error_of.h"
#include "support/small_policy.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHorizon = 8;  // of SmallSpec
constexpr double kTolerance = 1e-6;   // float32 sums of order 1

class PositionEncoder : public ObsEncoder {
 public:
  std::int64_t feature_dim() const override { return 2; }
  torch::Tensor Encode(const TensorMap& obs, const Normalizer&, NoiseSource*) override {
    return obs.find("agent_pos")->second;
  }
  void set_gradient_checkpointing(bool) override {}
};

/// Initially predicts zeros.
class ScalingDenoiser : public Denoiser {
 public:
  explicit ScalingDenoiser(torch::nn::Module& module)
      : scale_(module.register_parameter("scale", torch::zeros({1}))) {}
  torch::Tensor Forward(const torch::Tensor& noisy, const torch::Tensor&, const torch::Tensor&,
                        NoiseSource*) override {
    return noisy * scale_;
  }
  ConditionedDenoiser Condition(const std::vector<std::int64_t>&, const torch::Tensor&) override {
    return [](const torch::Tensor& naction, std::int64_t) { return naction; };
  }
  void DropCaches() override {}
  void set_gradient_checkpointing(bool) override {}

 private:
  torch::Tensor scale_;
};

DiffusionPolicy MakePolicy(const std::string& params) {
  DiffusionPolicy::Model model;
  model.obs_encoder = std::make_unique<PositionEncoder>();
  model.denoiser = std::make_unique<ScalingDenoiser>(*model.module);
  const Config config = Config::FromJson(
      R"({"noise_scheduler": {"prediction_type": "sample"})" + params + "}", "policy.json");
  return DiffusionPolicy("test", config, SmallSpec(), std::move(model));
}

/// The loss of predicting zeros for `action`, [3, T, 2]; the last two steps are padding.
float LossOf(const std::string& params, const torch::Tensor& action) {
  DiffusionPolicy policy = MakePolicy(params);
  policy.SetNormalizer(SmallNormalizer());
  Batch batch = {.obs = {{"agent_pos", torch::zeros({3, 2, 2})}},
                 .action = action,
                 .is_pad = torch::zeros({3, kHorizon}, torch::kBool)};
  batch.is_pad.slice(1, kHorizon - 2).fill_(true);
  NoiseSource noise = NoiseOfRows(3);
  return policy.ComputeLoss(batch, noise).loss.item<float>();
}

/// One at a single step and zero elsewhere: the loss times T is that step's weight.
double WeightOf(std::int64_t step, const std::string& params) {
  torch::Tensor action = torch::zeros({3, kHorizon, 2});
  action.select(1, step).fill_(1.0);
  return static_cast<double>(LossOf(params, action)) * static_cast<double>(kHorizon);
}

TEST(LossTimeWeights, ConstantOnesChangeNothing) {
  const torch::Tensor action = torch::linspace(-1.0, 1.0, 3 * kHorizon * 2).view({3, kHorizon, 2});
  for (const char* mask : {"", R"(, "do_mask_loss_for_padding": true)"}) {
    const float plain = LossOf(mask, action);
    const std::string params = mask;
    EXPECT_EQ(LossOf(params + R"(, "loss_time_weights": [3, 3, 3, 3, 3, 3, 3, 3])", action), plain);
    EXPECT_EQ(LossOf(params + R"(, "loss_time_decay": 1.0)", action), plain);
  }
}

TEST(LossTimeWeights, AreScaledToMeanOne) {
  const std::string params = R"(, "loss_time_weights": [4, 2, 1, 1, 0, 0, 0, 0])";
  EXPECT_NEAR(WeightOf(0, params), 4.0, kTolerance);
  EXPECT_NEAR(WeightOf(1, params), 2.0, kTolerance);
  EXPECT_NEAR(WeightOf(3, params), 1.0, kTolerance);
  EXPECT_EQ(WeightOf(4, params), 0.0);
}

TEST(LossTimeWeights, DecayFallsByOneFactorPerStep) {
  const std::string params = R"(, "loss_time_decay": 0.9)";
  double sum = 0.0;
  for (int t = 0; t < kHorizon; ++t) sum += std::pow(0.9, t);
  for (const int t : {0, 1, 7}) {
    EXPECT_NEAR(WeightOf(t, params), std::pow(0.9, t) * kHorizon / sum, kTolerance) << t;
  }
}

TEST(LossTimeWeights, PaddedStepsStayAtZero) {
  const std::string params =
      R"(, "loss_time_weights": [1, 1, 1, 1, 1, 1, 1, 9], "do_mask_loss_for_padding": true)";
  EXPECT_EQ(WeightOf(7, params), 0.0);
  EXPECT_NEAR(WeightOf(0, params), 0.5, kTolerance);
}

TEST(LossTimeWeights, ThatDoNotFitTheHorizonAreAnError) {
  const auto error_of = [](const char* params) {
    return MessageOf(ErrorCode::kConfig, [&] { MakePolicy(params); });
  };
  EXPECT_THAT(error_of(R"(, "loss_time_weights": [1, 2])"),
              HasSubstr("loss_time_weights: expected 8 numbers, one per step of the horizon, found "
                        "2"));
  EXPECT_THAT(error_of(R"(, "loss_time_weights": [1, 1, 1, 1, 1, 1, 1, -1])"),
              HasSubstr("non-negative numbers, at least one greater than 0"));
  EXPECT_THAT(error_of(R"(, "loss_time_weights": [0, 0, 0, 0, 0, 0, 0, 0])"),
              HasSubstr("non-negative numbers, at least one greater than 0"));
  EXPECT_THAT(error_of(R"(, "loss_time_weights": [1], "loss_time_decay": 0.5)"),
              HasSubstr("found both"));
  EXPECT_THAT(error_of(R"(, "loss_time_decay": 0)"), HasSubstr("loss_time_decay"));
}

}  // namespace
}  // namespace dp_bench::policy
