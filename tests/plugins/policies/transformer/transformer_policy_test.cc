#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "policy/stage_recorder.h"
#include "support/plugin_policy.h"
#include "support/small_policy.h"
#include "support/two_answers.h"
#include "support/two_tasks.h"
#include "support/weight_format_check.h"
#include "train/optimizer.h"

namespace dp_bench::transformer {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kImageSize = 40;

void ExpectLearnsBoth(const std::string& params, std::uint64_t n_steps = 300) {
  const auto policy = CreateSmallDiffusion(params);
  const TwoAnswers task(*policy);
  LearnByHeart(*policy, task.MakeBatch(), n_steps, /*rate=*/3e-3, /*weight_decay=*/1e-3);
  EXPECT_LE(task.ErrorOf(*policy), 0.08) << params;
}

TEST(TransformerPolicy, LearnsToAnswerEachObservationWithItsOwnActions) {
  torch::set_num_threads(1);  // more threads would only wait in a network this small
  const char* schedule =
      R"("n_layer": 2, "n_head": 4, "n_emb": 32, "noise_scheduler": {"type": "ddim",
    "num_train_timesteps": 20, "num_inference_steps": 5, "prediction_type": "sample"}})";
  const auto with = [schedule](const char* variant) {
    return std::string(variant) + R"("p_drop_emb": 0.01, "p_drop_attn": 0.01,)" + schedule;
  };
  for (const char* variant :
       {R"({)", R"({"norm": "post",)", R"({"causal_attn": true, "n_cond_layers": 1,)",
        R"({"obs_as_cond": false, "time_as_cond": false,)", R"({"time_embedding": "mlp",)"}) {
    ExpectLearnsBoth(with(variant));
  }
  // with inpainting, the network has to find out by attention alone which tokens are observed
  ExpectLearnsBoth(with(R"({"obs_as_global_cond": false,)"), 900);
}

TEST(TransformerPolicy, LearnsWithOtherObjectives) {
  const std::string network = R"("n_layer": 2, "n_head": 4, "n_emb": 32,
                                 "p_drop_emb": 0.0, "p_drop_attn": 0.0})";
  ExpectLearnsBoth(R"({"objective": "flow_matching",)" + network, 900);
  ExpectLearnsBoth(R"({"objective": "mip",)" + network);
  ExpectLearnsBoth(R"({"objective": "regression",)" + network);
}

TEST(TransformerPolicy, LearnsToAnswerEachTaskWithItsOwnActions) {
  const auto policy = CreatePluginPolicy(
      Config::FromJson(R"({"objective": "regression", "task_embed_dim": 8, "n_layer": 2,
                           "n_head": 4, "n_emb": 32, "p_drop_emb": 0.0, "p_drop_attn": 0.0})"),
      TwoTaskSpec());
  EXPECT_LE(ErrorAfterTwoTasks(*policy, 300), 0.08);
}

TEST(TransformerPolicy, DropoutComesFromTheNoiseOfEachRowAndEndsWithTraining) {
  const auto policy =
      CreateSmallDiffusion(R"({"n_layer": 2, "n_head": 2, "n_emb": 16, "p_drop_attn": 0.3})");
  const auto loss = [&](std::uint64_t major) {
    NoiseSource noise = NoiseOfRows(4, major);
    return policy->ComputeLoss(ZeroBatch(4), noise).loss.item<double>();
  };
  torch::manual_seed(1);
  const double first = loss(1);
  torch::manual_seed(2);  // the global generator must not matter
  EXPECT_EQ(loss(1), first);
  policy->module().eval();
  EXPECT_NE(loss(1), first);
}

TEST(TransformerPolicy, TrainsAndPredictsFromImages) {
  const auto policy =
      CreateSmallDiffusion(R"({"n_layer": 1, "n_head": 2, "n_emb": 16, "crop_shape": [36, 36],
    "noise_scheduler": {"num_train_timesteps": 4}})",
                           SmallSpec(kImageSize));
  Batch batch = ZeroBatch(2);
  batch.obs["image"] = torch::zeros({2, 2, 3, 40, 40}, torch::kUInt8);
  ExpectTrainsAndPlans(*policy, batch, batch.obs);
}

// upstream's get_optim_groups: decay only on the weights of linear layers and attention
TEST(TransformerPolicy, NormsBiasesAndPositionsDoNotDecay) {
  const auto policy = CreateSmallDiffusion(R"({"n_layer": 1, "n_cond_layers": 1})");
  for (const train::ParameterGroup& group :
       train::MakeParameterGroups(policy->module(), {.weight_decay = 1e-3})) {
    for (const std::string& name : group.names) {
      const bool is_weight = name.ends_with("weight") && name.find("norm") == std::string::npos &&
                             name.find("ln_f") == std::string::npos;
      EXPECT_EQ(group.weight_decay > 0.0, is_weight) << name;
    }
  }
}

TEST(TransformerPolicy, PlansWithWeightsOfEachFormatAndOnSeveralThreads) {
  constexpr const char* kSmall = R"("n_layer": 2, "n_head": 2, "n_emb": 64,
      "noise_scheduler": {"type": "ddim", "num_inference_steps": 5, "prediction_type": "sample"}})";
  for (const char* variant :
       {"{", R"({"n_cond_layers": 1,)", R"({"time_as_cond": false, "obs_as_cond": false,)"}) {
    SCOPED_TRACE(variant);
    CheckWeightFormats(*CreateSmallDiffusion(std::string(variant) + kSmall));
  }
}

TEST(TransformerPolicy, TracesWhatItsLayersLookAt) {
  const auto policy =
      CreateSmallDiffusion(R"({"n_layer": 2, "n_head": 2, "n_emb": 16, "causal_attn": true})");
  TensorMap maps;
  {
    const torch::NoGradGuard no_grad;
    const policy::StageRecorder recorder([&](std::string_view name, const torch::Tensor& tensor) {
      if (name.starts_with("attention: ")) maps.emplace(name, tensor.clone());
    });
    policy->denoiser().Forward(torch::zeros({3, 8, 2}), torch::tensor({1, 2, 3}),
                               torch::zeros({3, 2, 2}), /*noise=*/nullptr);
  }
  ASSERT_EQ(maps.size(), 4);
  for (const std::string layer : {"1", "2"}) {
    const std::string place = "attention: decoder layer " + layer + ", actions to ";
    const torch::Tensor self = maps.at(place + "actions");
    const torch::Tensor cross = maps.at(place + "condition");
    EXPECT_EQ(self.sizes(), torch::IntArrayRef({3, 2, 8, 8}));
    EXPECT_EQ(cross.sizes(), torch::IntArrayRef({3, 2, 8, 3}));
    EXPECT_TRUE(torch::allclose(cross.sum(-1), torch::ones({3, 2, 8})));
    EXPECT_EQ(self.triu(1).abs().max().item<float>(), 0.0F);
    EXPECT_EQ(cross[0][0][0][2].item<float>(), 0.0F);  // action 0, observation 1
  }
}

TEST(TransformerPolicy, SettingsThatCannotWorkAreExplained) {
  EXPECT_THAT(ConfigErrorOf(R"({"n_emb": 30, "n_head": 4})"), HasSubstr("multiple of n_head = 4"));
  EXPECT_THAT(ConfigErrorOf(R"({"n_emb": 5, "n_head": 1})"), HasSubstr("must be even"));
  EXPECT_THAT(ConfigErrorOf(R"({"time_as_cond": false})"), HasSubstr("needs time_as_cond"));
  EXPECT_THAT(ConfigErrorOf(R"({"time_as_cond": false, "obs_as_cond": false, "n_cond_layers": 2})"),
              HasSubstr("n_cond_layers is 2"));
  EXPECT_THAT(ConfigErrorOf(R"({"norm": "layer"})"), HasSubstr("norm"));
  EXPECT_THAT(ConfigErrorOf(R"({"time_embedding": "learned"})"), HasSubstr("time_embedding"));
  EXPECT_THAT(ConfigErrorOf(R"({"p_drop_attn": 1.0})"), HasSubstr("p_drop_attn"));
}

}  // namespace
}  // namespace dp_bench::transformer
