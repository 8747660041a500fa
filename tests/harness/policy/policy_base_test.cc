// What PolicyBase does around the two functions of a subclass.
#include "dp_bench/policy/policy_base.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "support/error_of.h"
#include "support/small_policy.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;

// Predicts the index of each step, and notes how it was called.
class CountingPolicy final : public PolicyBase {
 public:
  CountingPolicy() : PolicyBase("counting", SmallSpec()) {
    weight_ = module().register_parameter("weight", torch::ones({1}));
  }

  std::optional<bool> was_training;
  std::optional<bool> had_gradients;
  std::int64_t length = SmallSpec().horizons.horizon;

 private:
  LossOutput BatchLoss(const Batch& batch, NoiseSource& /*noise*/) override {
    return {.loss = (normalizer().Normalize("action", batch.action) * weight_).mean(), .parts = {}};
  }
  torch::Tensor PredictSequence(const TensorMap& /*obs*/, NoiseSource& noise) override {
    was_training = module().is_training();
    had_gradients = torch::GradMode::is_enabled();
    return torch::arange(length, torch::kFloat32)
        .view({1, -1, 1})
        .repeat({noise.batch_size(), 1, action_dim()});
  }

  torch::Tensor weight_;
};

TensorMap Obs(std::int64_t rows) { return {{"agent_pos", torch::zeros({rows, 2, 2})}}; }

// Statistics with which a normalized action of 1 is one of 10.
Normalizer TenfoldNormalizer() {
  Normalizer::Fields fields = SmallNormalizer().fields();
  fields["action"].scale = fields["action"].scale / 10.0;
  return Normalizer(fields);
}

TEST(PolicyBase, ReturnsTheStepsFromTheCurrentOneOnInRawUnits) {
  CountingPolicy policy;
  policy.SetNormalizer(TenfoldNormalizer());
  NoiseSource noise = NoiseOfRows(3);
  const torch::Tensor chunk = policy.PredictAction(Obs(3), noise);
  ASSERT_EQ(chunk.sizes(), torch::IntArrayRef({3, 4, 2}));  // T 8, To 2, Ta 4
  EXPECT_TRUE(torch::allclose(chunk[2].select(1, 1), torch::tensor({10.0F, 20.0F, 30.0F, 40.0F})));
}

TEST(PolicyBase, PredictsInEvaluationModeWithoutGradientsAndRestoresBoth) {
  CountingPolicy policy;
  policy.SetNormalizer(SmallNormalizer());
  policy.module().train();
  NoiseSource noise = NoiseOfRows(1);
  policy.PredictAction(Obs(1), noise);
  EXPECT_EQ(policy.was_training, false);
  EXPECT_EQ(policy.had_gradients, false);
  EXPECT_TRUE(policy.module().is_training());
  EXPECT_TRUE(torch::GradMode::is_enabled());
}

TEST(PolicyBase, WithoutANormalizerNothingIsComputed) {
  CountingPolicy policy;
  NoiseSource noise = NoiseOfRows(1);
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { policy.PredictAction(Obs(1), noise); }),
              HasSubstr("counting has no normalizer; call SetNormalizer"));
  EXPECT_FALSE(policy.was_training.has_value());
  EXPECT_THAT(MessageOf(ErrorCode::kData, [&] { policy.SetNormalizer(Normalizer()); }),
              HasSubstr("no statistics for 'action'"));
}

TEST(PolicyBase, InputsOfAnotherShapeAreNamed) {
  CountingPolicy policy;
  policy.SetNormalizer(SmallNormalizer());
  NoiseSource noise = NoiseOfRows(1);
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { policy.PredictAction({}, noise); }),
              HasSubstr("agent_pos"));
  const Batch batch = {.obs = Obs(1),
                       .action = torch::zeros({1, 7, 2}),
                       .is_pad = torch::zeros({1, 8}, torch::kBool)};
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { policy.ComputeLoss(batch, noise); }),
              HasSubstr("'action' must be [B, 8, 2]"));
}

TEST(PolicyBase, ASequenceOfAnotherLengthIsRefused) {
  CountingPolicy policy;
  policy.SetNormalizer(SmallNormalizer());
  policy.length = 4;
  NoiseSource noise = NoiseOfRows(1);
  EXPECT_THAT(MessageOf(ErrorCode::kShape, [&] { policy.PredictAction(Obs(1), noise); }),
              HasSubstr("expected normalized actions [B, T, Da] = [1, 8, 2], found [1, 4, 2]"));
}

}  // namespace
}  // namespace dp_bench::policy
