#include <fmt/format.h>

#include "harness/policy/denoiser_check.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kObsFeatures = 3;  // Do

MadeDenoiser MakeSmallUnet(bool cond_predict_scale = true) {
  return MakeDenoiserFrom(
      MakeUnetDenoiser,
      fmt::format(R"({{"diffusion_step_embed_dim": 8, "down_dims": [8, 16, 24], "kernel_size": 5,
                       "n_groups": 4, "cond_predict_scale": {}}})",
                  cond_predict_scale),
      kObsFeatures);
}

class UnetBatch : public testing::TestWithParam<std::int64_t> {};

TEST_P(UnetBatch, TimeMajorEqualsLibTorchWithGradients) {
  for (const bool cond_predict_scale : {true, false}) {
    ExpectFloatEqualsDouble(MakeSmallUnet(cond_predict_scale),
                            MakeDenoiserInputs(GetParam(), kObsFeatures));
  }
}

TEST_P(UnetBatch, ConditionEqualsForwardAtTheSameTimestep) {
  const torch::NoGradGuard no_grad;
  ExpectConditionEqualsForward(MakeSmallUnet(), MakeDenoiserInputs(GetParam(), kObsFeatures));
}

INSTANTIATE_TEST_SUITE_P(Sizes, UnetBatch, testing::Values(1, 3, 17, 70));

// the default network too, because the matrix products choose their kernels by size
TEST(ConditionalUnet1d, ARowDependsNeitherOnItsCompanionsNorOnItsPlace) {
  const torch::NoGradGuard no_grad;
  ExpectIndependentRows(MakeSmallUnet(), kObsFeatures, /*also_alone=*/false);
  ExpectIndependentRows(MakeDenoiserFrom(MakeUnetDenoiser, "{}", kObsFeatures), kObsFeatures,
                        /*also_alone=*/false);
}

TEST(ConditionalUnet1d, DropCachesMakesConditionReadTheWeightsAgain) {
  const torch::NoGradGuard no_grad;
  ExpectDropCachesReadsTheWeightsAgain(MakeSmallUnet(), MakeDenoiserInputs(4, kObsFeatures));
}

TEST(ConditionalUnet1d, WithoutAGlobalConditionItIsConditionedOnTheTimestepAlone) {
  const torch::NoGradGuard no_grad;
  const MadeDenoiser unet = MakeDenoiserFrom(
      MakeUnetDenoiser, R"({"down_dims": [8, 16], "n_groups": 4})", /*obs_feature_dim=*/0);
  for (const std::int64_t batch : {1, 5}) {
    const DenoiserInputs in = MakeDenoiserInputs(batch, 0);
    ExpectConditionEqualsForward(unet, in);
    const ConditionedDenoiser predict = unet.net->Condition({90, 30}, in.cond);
    EXPECT_GT(RelativeDifference(predict(in.sample, 0), predict(in.sample, 1)), kRounding);
  }
}

TEST(ConditionalUnet1d, TheDefaultSizeHasLeRobotsNumberOfParameters) {
  // lerobot 0.3.2, DiffusionConditionalUnet1d with the same settings
  const MadeDenoiser unet = MakeDenoiserFrom(MakeUnetDenoiser, "{}", /*obs_feature_dim=*/18);
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : unet.module->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 4'545'218);
}

}  // namespace
}  // namespace dp_bench::policy
