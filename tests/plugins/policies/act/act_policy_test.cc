#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "harness/policy/train_modes.h"
#include "support/plugin_policy.h"
#include "support/small_policy.h"
#include "support/two_answers.h"
#include "support/two_tasks.h"

namespace dp_bench::act {
namespace {

using testing::HasSubstr;

constexpr const char* kSmall = R"("dim_model": 32, "n_heads": 2, "dim_feedforward": 64,
    "n_encoder_layers": 1, "n_vae_encoder_layers": 1, "latent_dim": 4)";

std::unique_ptr<Policy> CreateSmallAct(const std::string& more = "",
                                       const PolicySpec& spec = SmallSpec()) {
  torch::manual_seed(5);
  auto policy = CreatePluginPolicy(Config::FromJson(std::string("{") + kSmall + more + "}"), spec);
  policy->SetNormalizer(SmallNormalizer());
  return policy;
}

Batch MakeBatch(std::int64_t rows) {
  NoiseSource source = NoiseOfRows(rows, /*major=*/3);
  return SmallBatch(source, rows);
}

TEST(ActPolicy, LearnsToAnswerEachObservationWithItsOwnActions) {
  torch::set_num_threads(1);  // more threads would only wait in a network this small
  for (const char* variant : {R"(, "dropout": 0.0)", R"(, "dropout": 0.0, "pre_norm": true)",
                              R"(, "dropout": 0.0, "use_vae": false)"}) {
    const auto policy = CreateSmallAct(variant);
    const TwoAnswers task(*policy);
    LearnByHeart(*policy, task.MakeBatch(), 300);
    EXPECT_LE(task.ErrorOf(*policy), 0.08) << variant;
  }
}

TEST(ActPolicy, LearnsToAnswerEachTaskWithItsOwnActions) {
  torch::set_num_threads(1);
  torch::manual_seed(5);
  const auto policy = CreatePluginPolicy(
      Config::FromJson(std::string("{") + kSmall + R"(, "dropout": 0.0})"), TwoTaskSpec());
  EXPECT_LE(ErrorAfterTwoTasks(*policy, 300), 0.08);
}

// The latent is drawn in training only.
TEST(ActPolicy, APlanIsAFunctionOfTheObservation) {
  const auto policy = CreateSmallAct();
  const TensorMap obs = MakeBatch(2).obs;
  NoiseSource noise = NoiseOfRows(2, 1);
  NoiseSource other = NoiseOfRows(2, 2);
  EXPECT_TRUE(torch::equal(policy->PredictAction(obs, noise), policy->PredictAction(obs, other)));
}

TEST(ActPolicy, LatentAndDropoutComeFromTheNoiseOfEachRowAndEndWithTraining) {
  for (const char* variant : {R"(, "dropout": 0.0)", R"(, "dropout": 0.3, "use_vae": false)"}) {
    SCOPED_TRACE(variant);
    const auto policy = CreateSmallAct(variant);
    const auto loss = [&](std::uint64_t major) {
      NoiseSource noise = NoiseOfRows(4, major);
      return policy->ComputeLoss(MakeBatch(4), noise).loss.item<double>();
    };
    torch::manual_seed(1);
    const double first = loss(1);
    torch::manual_seed(2);  // the global generator must not matter
    EXPECT_EQ(loss(1), first);
    EXPECT_NE(loss(2), first);
    policy->module().eval();
    EXPECT_EQ(loss(1), loss(2));
  }
}

TEST(ActPolicy, AutocastGivesNearlyTheSameGradients) {
  for (const char* variant : {"", R"(, "pre_norm": true)"}) {
    SCOPED_TRACE(variant);
    Batch batch = MakeBatch(6);
    batch.action += 5.0;  // the gradient of an error jumps at zero
    policy::ExpectAutocastGivesNearlyTheSameGradients(*CreateSmallAct(variant), batch);
  }
}

TEST(ActPolicy, PaddedStepsChangeNothing) {
  const auto policy = CreateSmallAct(R"(, "dropout": 0.0)");
  Batch batch = MakeBatch(4);
  batch.is_pad.slice(1, 5).fill_(true);
  const auto loss = [&] {
    NoiseSource noise = NoiseOfRows(4);
    return policy->ComputeLoss(batch, noise).loss.item<double>();
  };
  const double before = loss();
  batch.action.slice(1, 5).fill_(0.7F);
  EXPECT_NEAR(loss(), before, 1e-6 * before);
  batch.action.slice(1, 4).fill_(0.7F);
  EXPECT_GT(std::abs(loss() - before), 1e-4 * before);
}

TEST(ActPolicy, StateKeysAreJoinedInTheirOrder) {
  PolicySpec spec = SmallSpec();
  spec.shape_meta.obs.push_back({.name = "block", .shape = {3}});
  const auto width = [&](const char* more, const char* layer) {
    const auto policy =
        CreatePluginPolicy(Config::FromJson(std::string("{") + kSmall + more + "}"), spec);
    return policy->module().named_parameters()[std::string("model.") + layer + ".weight"].size(1);
  };
  // two steps of each
  EXPECT_EQ(width("", "encoder_robot_state_input_proj"), 10);
  EXPECT_EQ(width(R"(, "env_state_keys": ["block"])", "encoder_robot_state_input_proj"), 4);
  EXPECT_EQ(width(R"(, "env_state_keys": ["block"])", "encoder_env_state_input_proj"), 6);

  Normalizer::Fields fields = SmallNormalizer().fields();
  const std::vector<double> ones(3, 1.0);
  const std::vector<double> minus_ones(3, -1.0);
  fields.insert(train::FitKey("block", {.min = minus_ones, .max = ones}, NormalizeMode::kLimits));
  TensorMap obs = MakeBatch(2).obs;
  obs["block"] = torch::ones({2, 2, 3});
  std::vector<torch::Tensor> plans;
  for (const char* order : {R"(["block", "agent_pos"])", R"(["agent_pos", "block"])"}) {
    torch::manual_seed(5);
    const auto policy = CreatePluginPolicy(
        Config::FromJson(std::string("{") + kSmall + R"(, "state_keys": )" + order + "}"), spec);
    policy->SetNormalizer(Normalizer(fields));
    NoiseSource noise = NoiseOfRows(2);
    plans.push_back(policy->PredictAction(obs, noise));
  }
  EXPECT_FALSE(torch::equal(plans[0], plans[1]));

  const auto error = [&](const char* more) {
    return ConfigErrorOf(std::string("{") + kSmall + more + "}", spec);
  };
  EXPECT_THAT(error(R"(, "state_keys": ["agent_pos"])"), HasSubstr("'block' is missing"));
  EXPECT_THAT(error(R"(, "state_keys": ["pose"])"), HasSubstr("no low_dim key 'pose'"));
  EXPECT_THAT(error(R"(, "env_state_keys": ["block", "block"])"), HasSubstr("given twice"));
}

TEST(ActPolicy, AFrozenBackboneNormHasNoParameters) {
  const char* backbone = R"(, "obs_encoder": {"resnet_width": 8, "resnet_stages": 2)";
  const auto frozen = CreateSmallAct(std::string(backbone) + "}", SmallSpec(40));
  const auto group =
      CreateSmallAct(std::string(backbone) + R"(, "use_group_norm": true})", SmallSpec(40));
  EXPECT_TRUE(frozen->module().named_buffers().contains("model.backbone.bn1.running_var"));
  EXPECT_FALSE(frozen->module().named_parameters().contains("model.backbone.bn1.weight"));
  EXPECT_TRUE(group->module().named_parameters().contains("model.backbone.bn1.weight"));
}

TEST(ActPolicy, TrainsAndPredictsFromImagesAlone) {
  PolicySpec spec = SmallSpec(40);
  spec.shape_meta.obs.erase(spec.shape_meta.obs.begin());
  const auto policy = CreateSmallAct(
      R"(, "crop_shape": [36, 36], "obs_encoder": {"resnet_width": 8, "resnet_stages": 2})", spec);
  Batch batch = MakeBatch(2);
  batch.obs = {{"image", torch::zeros({2, 2, 3, 40, 40}, torch::kUInt8)}};
  ExpectTrainsAndPlans(*policy, batch, batch.obs);
}

TEST(ActPolicy, SettingsThatCannotWorkAreExplained) {
  EXPECT_THAT(ConfigErrorOf(R"({"dim_model": 30, "n_heads": 2})"), HasSubstr("multiple of 4"));
  EXPECT_THAT(ConfigErrorOf(R"({"dim_model": 32, "n_heads": 5})"), HasSubstr("n_heads = 5"));
  EXPECT_THAT(ConfigErrorOf(R"({"feedforward_activation": "glu"})"),
              HasSubstr("feedforward_activation"));
}

}  // namespace
}  // namespace dp_bench::act
