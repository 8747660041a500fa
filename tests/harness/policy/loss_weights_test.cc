// The weights of timesteps compared with diffusers, and settings that do not fit.
#include "policy/networks/loss_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "support/error_of.h"
#include "support/json_golden.h"

namespace dp_bench::policy {
namespace {

using testing::HasSubstr;

// Both start from alphas_cumprod in float32. Near 1 its rounding is 1e-4 of 1 - alphas_cumprod, so
// of the SNR; relative to the weight.
constexpr double kWeightTolerance = 3e-4;

torch::Tensor WeightsOf(const std::string& params) {
  const Config config = Config::FromJson(params, "policy.json");
  const NoiseScheduler scheduler(NoiseSchedulerConfig::FromConfig(config.Sub("noise_scheduler")));
  torch::Tensor weights = ReadTimestepWeights(config, scheduler);
  config.RejectUnread();
  return weights;
}

TEST(TimestepWeights, EqualThoseOfDiffusersForEachPredictionType) {
  int n_cases = 0;
  for (nlohmann::json params : JsonGolden("loss_weights")) {
    const auto expected = params["weights"].get<std::vector<double>>();
    params.erase("weights");
    const torch::Tensor found = WeightsOf(params.dump());
    ASSERT_EQ(found.sizes(), torch::IntArrayRef({static_cast<std::int64_t>(expected.size())}));
    for (std::size_t t = 0; t < expected.size(); ++t) {
      EXPECT_NEAR(found[static_cast<std::int64_t>(t)].item<double>(), expected[t],
                  kWeightTolerance * expected[t])
          << params << " at " << t;
    }
    ++n_cases;
  }
  EXPECT_EQ(n_cases, 18);
}

TEST(TimestepWeights, DefaultToNoneAndToTheGammaOfThePaper) {
  EXPECT_FALSE(WeightsOf("{}").defined());
  EXPECT_FALSE(WeightsOf(R"({"loss_weighting": "none", "snr_gamma": 3})").defined());
  EXPECT_TRUE(torch::equal(WeightsOf(R"({"loss_weighting": "min_snr"})"),
                           WeightsOf(R"({"loss_weighting": "min_snr", "snr_gamma": 5})")));
}

TEST(TimestepWeights, OfATableAreUsedAsTheyAre) {
  EXPECT_TRUE(
      torch::equal(WeightsOf(R"({"loss_weighting": "table", "loss_weighting_table": [0, 0.5, 4],
                    "noise_scheduler": {"num_train_timesteps": 3}})"),
                   torch::tensor({0.0F, 0.5F, 4.0F})));
}

TEST(TimestepWeights, ThatDoNotFitAreAnError) {
  const auto error_of = [](const char* params) {
    return MessageOf(ErrorCode::kConfig, [&] { WeightsOf(params); });
  };
  EXPECT_THAT(error_of(R"({"loss_weighting": "min-snr"})"), HasSubstr("min_snr"));
  EXPECT_THAT(error_of(R"({"loss_weighting": "min_snr", "snr_gamma": 0})"), HasSubstr("snr_gamma"));
  EXPECT_THAT(error_of(R"({"loss_weighting": "table"})"),
              HasSubstr("loss_weighting_table: expected 100 numbers, one per training timestep, "
                        "found 0"));
  EXPECT_THAT(error_of(R"({"loss_weighting": "table", "loss_weighting_table": [1, 2]})"),
              HasSubstr("loss_weighting_table: expected 100 numbers, one per training timestep, "
                        "found 2"));
  EXPECT_THAT(error_of(R"({"loss_weighting": "table", "loss_weighting_table": [1, -1],
                           "noise_scheduler": {"num_train_timesteps": 2}})"),
              HasSubstr("non-negative numbers, at least one greater than 0"));
  EXPECT_THAT(error_of(R"({"loss_weighting": "snr", "loss_weighting_table": [1]})"),
              HasSubstr("this only with loss_weighting table, found it with snr"));
}

}  // namespace
}  // namespace dp_bench::policy
