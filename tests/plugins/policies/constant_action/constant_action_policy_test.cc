#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include "dp_bench/error.h"
#include "support/plugin_policy.h"
#include "train/fit_normalizer.h"

namespace dp_bench::constant_action {
namespace {

PolicySpec MakeSpec() {
  PolicySpec spec;
  spec.shape_meta.obs = {{.name = "agent_pos", .shape = {2}}};
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  spec.horizons = {.horizon = 4, .n_obs_steps = 2, .n_action_steps = 3};
  return spec;
}

std::unique_ptr<Policy> MakePolicy(const char* params) {
  auto policy = CreatePluginPolicy(Config::FromJson(params), MakeSpec());
  const KeyStats stats = {
      .min = {0, 0}, .max = {10, 20}, .mean = {5, 10}, .std = {1, 1}, .count = 2};
  policy->SetNormalizer(Normalizer({train::FitKey("action", stats, NormalizeMode::kLimits),
                                    train::FitKey("agent_pos", stats, NormalizeMode::kLimits)}));
  return policy;
}

TEST(ConstantActionPolicy, LearnsTheMeanAction) {
  const auto policy = MakePolicy("{}");
  torch::Tensor action = torch::zeros({2, 4, 2});
  action[0].fill_(2.0);
  action[1].fill_(6.0);
  const Batch batch = {.obs = {{"agent_pos", torch::zeros({2, 2, 2})}},
                       .action = action,
                       .is_pad = torch::zeros({2, 4}, torch::kBool)};
  NoiseSource noise({NoiseKey{}, NoiseKey{}});
  torch::optim::SGD optimizer(policy->module().parameters(), torch::optim::SGDOptions(0.5));
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    policy->ComputeLoss(batch, noise).loss.backward();
    optimizer.step();
  }
  const torch::Tensor found = policy->PredictAction(batch.obs, noise);
  EXPECT_TRUE(torch::allclose(found, torch::full({2, 3, 2}, 4.0), 1e-4, 1e-4)) << found;
}

TEST(ConstantActionPolicy, StartsFromItsParam) {
  const auto policy = MakePolicy(R"({"initial_naction": 0.5})");
  NoiseSource noise({NoiseKey{}});
  const torch::Tensor found =
      policy->PredictAction({{"agent_pos", torch::zeros({1, 2, 2})}}, noise);
  EXPECT_TRUE(torch::allclose(found[0][0], torch::tensor({7.5F, 15.0F})));
}

TEST(ConstantActionPolicy, AWrongShapeSaysWhatWasWantedAndFound) {
  const auto policy = MakePolicy("{}");
  NoiseSource noise({NoiseKey{}});
  try {
    policy->PredictAction({{"agent_pos", torch::zeros({1, 2, 3})}}, noise);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr(
                    "'agent_pos' must be [B, 2, 2] Float with B = 1, found [1, 2, 3] Float"));
  }
}

}  // namespace
}  // namespace dp_bench::constant_action
