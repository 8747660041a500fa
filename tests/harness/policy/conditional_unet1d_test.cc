#include "policy/networks/conditional_unet1d.h"

#include "harness/policy/gradient_check.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kCond = 5;

ConditionalUnet1d MakeUnet(bool cond_predict_scale = true) {
  torch::manual_seed(3);
  return ConditionalUnet1d(UnetConfig{.action_dim = 2,
                                      .global_cond_dim = kCond,
                                      .diffusion_step_embed_dim = 8,
                                      .down_dims = {8, 16, 24},
                                      .kernel_size = 5,
                                      .n_groups = 4,
                                      .cond_predict_scale = cond_predict_scale});
}

struct UnetInputs {
  torch::Tensor sample;
  torch::Tensor timesteps;
  torch::Tensor global_cond;
};

UnetInputs MakeUnetInputs(std::int64_t batch) {
  torch::manual_seed(4);
  return {torch::randn({batch, 16, 2}), torch::randint(100, {batch}, torch::kInt64),
          torch::randn({batch, kCond})};
}

class UnetBatch : public testing::TestWithParam<std::int64_t> {};

TEST_P(UnetBatch, TimeMajorEqualsLibTorchWithGradients) {
  for (const bool cond_predict_scale : {true, false}) {
    ConditionalUnet1d unet = MakeUnet(cond_predict_scale);
    const UnetInputs in = MakeUnetInputs(GetParam());
    ExpectEqualWithGradients(unet->forward(in.sample, in.timesteps, in.global_cond),
                             unet->ForwardReference(in.sample, in.timesteps, in.global_cond),
                             unet->parameters());
  }
}

TEST_P(UnetBatch, PredictEqualsForwardAtTheSameTimestep) {
  const torch::NoGradGuard no_grad;
  ConditionalUnet1d unet = MakeUnet();
  const UnetInputs in = MakeUnetInputs(GetParam());
  const auto conditioning = unet->Condition({90, 30, 0}, in.global_cond);
  const torch::Tensor timesteps = torch::full({GetParam()}, 30, torch::kInt64);
  EXPECT_LE(RelativeDifference(unet->Predict(in.sample, conditioning, 1),
                               unet->ForwardReference(in.sample, timesteps, in.global_cond)),
            kRounding);
}

INSTANTIATE_TEST_SUITE_P(Sizes, UnetBatch, testing::Values(1, 3, 17, 70));

// A shuffled batch must give the shuffled result, bit for bit.
void ExpectIndependentRows(ConditionalUnet1dImpl& unet) {
  for (const std::int64_t batch : {2, 3, 7, 16, 50}) {
    const UnetInputs in = MakeUnetInputs(batch);
    const torch::Tensor order = torch::randperm(batch, torch::kInt64);
    const auto conditioning = unet.Condition({50}, in.global_cond);
    const auto permuted = unet.Condition({50}, in.global_cond.index_select(0, order));
    const torch::Tensor expected = unet.Predict(in.sample, conditioning, 0).index_select(0, order);
    const torch::Tensor found = unet.Predict(in.sample.index_select(0, order), permuted, 0);
    EXPECT_TRUE(torch::equal(found, expected)) << "batch " << batch;
  }
}

// the default network too, because the matrix products choose their kernels by size
TEST(ConditionalUnet1d, ARowDependsNeitherOnItsCompanionsNorOnItsPlace) {
  const torch::NoGradGuard no_grad;
  for (const bool is_small : {true, false}) {
    ConditionalUnet1d unet =
        is_small ? MakeUnet()
                 : ConditionalUnet1d(UnetConfig{.action_dim = 2, .global_cond_dim = kCond});
    ExpectIndependentRows(*unet);
  }
}

TEST(ConditionalUnet1d, DropCachesMakesPredictReadTheWeightsAgain) {
  const torch::NoGradGuard no_grad;
  ConditionalUnet1d unet = MakeUnet();
  const UnetInputs in = MakeUnetInputs(4);
  const torch::Tensor timesteps = torch::full({4}, 30, torch::kInt64);
  unet->Predict(in.sample, unet->Condition({30}, in.global_cond), 0);
  for (torch::Tensor& parameter : unet->parameters()) parameter.data().mul_(1.5);  // no new version
  unet->DropCaches();
  EXPECT_LE(RelativeDifference(unet->Predict(in.sample, unet->Condition({30}, in.global_cond), 0),
                               unet->ForwardReference(in.sample, timesteps, in.global_cond)),
            kRounding);
}

TEST(ConditionalUnet1d, WithoutAGlobalConditionItIsConditionedOnTheTimestepAlone) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(3);
  ConditionalUnet1d unet(UnetConfig{.action_dim = 2, .down_dims = {8, 16}, .n_groups = 4});
  for (const std::int64_t batch : {1, 5}) {
    const UnetInputs in = MakeUnetInputs(batch);
    const torch::Tensor none = torch::zeros({batch, 0});
    const torch::Tensor timesteps = torch::full({batch}, 30, torch::kInt64);
    const torch::Tensor expected = unet->ForwardReference(in.sample, timesteps, none);
    EXPECT_LE(RelativeDifference(unet->forward(in.sample, timesteps, none), expected), kRounding);
    const auto conditioning = unet->Condition({90, 30, 0}, none);
    EXPECT_LE(RelativeDifference(unet->Predict(in.sample, conditioning, 1), expected), kRounding);
    EXPECT_GT(RelativeDifference(unet->Predict(in.sample, conditioning, 0), expected), kRounding);
  }
}

TEST(ConditionalUnet1d, TheDefaultSizeHasLeRobotsNumberOfParameters) {
  // lerobot 0.3.2, DiffusionConditionalUnet1d with the same settings
  const ConditionalUnet1d unet(UnetConfig{.action_dim = 2, .global_cond_dim = 36});
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : unet->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 4'545'218);
}

}  // namespace
}  // namespace dp_bench::policy
