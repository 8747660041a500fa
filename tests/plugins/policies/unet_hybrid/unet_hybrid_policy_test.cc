#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <functional>
#include <string>

#include "dp_bench/error.h"
#include "support/double_policy.h"
#include "support/error_of.h"
#include "support/plugin_policy.h"
#include "support/small_policy.h"
#include "support/two_answers.h"
#include "support/two_tasks.h"
#include "support/weight_format_check.h"

namespace dp_bench::unet_hybrid {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kImageSize = 72;

std::unique_ptr<policy::DiffusionPolicy> MakeSmall(const std::string& variant,
                                                   const std::string& prediction_type = "sample",
                                                   const std::string& down_dims = "[16, 32]") {
  const std::string params = "{" + variant + R"("down_dims": )" + down_dims + R"(,
    "diffusion_step_embed_dim": 16, "n_groups": 4,
    "noise_scheduler": {"type": "ddim", "num_train_timesteps": 20, "num_inference_steps": 5,
                        "prediction_type": ")" +
                             prediction_type + "\"}}";
  return CreateSmallDiffusion(params);
}

void Train(
    Policy& policy, int n_steps, const std::function<void()>& after_step = [] {}) {
  const Batch batch = TwoAnswers(policy).MakeBatch();
  torch::optim::Adam optimizer(policy.module().parameters(), torch::optim::AdamOptions(3e-3));
  for (int step = 0; step < n_steps; ++step) {
    NoiseSource noise = NoiseOfRows(16, static_cast<std::uint64_t>(step));
    optimizer.zero_grad();
    policy.ComputeLoss(batch, noise).loss.backward();
    auto& options = static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options());
    options.lr(3e-3 * (1.0 - static_cast<double>(step) / n_steps));
    optimizer.step();
    after_step();
  }
  policy.WeightsChanged();
}

void ExpectLearnsBoth(const std::string& variant, int n_steps = 200) {
  const auto policy = MakeSmall(variant);
  Train(*policy, n_steps);
  EXPECT_LE(TwoAnswers(*policy).ErrorOf(*policy), 0.08) << variant;
}

TEST(UnetHybridPolicy, LearnsToAnswerEachObservationWithItsOwnActions) { ExpectLearnsBoth(""); }

TEST(UnetHybridPolicy, LearnsToAnswerEachTaskWithItsOwnActions) {
  const auto policy = CreatePluginPolicy(
      Config::FromJson(R"({"objective": "regression", "task_embed_dim": 8, "down_dims": [16, 32],
                           "diffusion_step_embed_dim": 16, "n_groups": 4})"),
      TwoTaskSpec());
  EXPECT_LE(ErrorAfterTwoTasks(*policy, 200), 0.08);
}

TEST(UnetHybridPolicy, LearnsByInpaintingToo) {
  ExpectLearnsBoth(R"("obs_as_global_cond": false,)");
}

TEST(UnetHybridPolicy, LearnsWithOtherObjectives) {
  ExpectLearnsBoth(R"("objective": "flow_matching",)", 500);
  ExpectLearnsBoth(R"("objective": "mip",)");
  ExpectLearnsBoth(R"("objective": "regression",)");
}

TEST(UnetHybridPolicy, PlansTheSameInFloat64) {
  const PolicySpec spec = SmallSpec(kImageSize);
  const auto policy =
      CreateSmallDiffusion(R"({"resize_shape": [40, 40], "obs_encoder": {"resnet_width": 8},
    "down_dims": [16, 32], "diffusion_step_embed_dim": 16, "n_groups": 4, "noise_scheduler":
    {"num_train_timesteps": 20, "num_inference_steps": 5, "prediction_type": "sample"}})",
                           spec);
  const TensorMap obs = {
      {"agent_pos", torch::rand({2, 2, 2})},
      {"image", torch::randint(256, {2, 2, 3, kImageSize, kImageSize}, torch::kUInt8)}};
  NoiseSource noise = NoiseOfRows(2);
  const torch::Tensor action = policy->PredictAction(obs, noise);
  ToDouble(*policy, SmallNormalizer().fields());
  NoiseSource again = NoiseOfRows(2);
  const torch::Tensor exact = policy->PredictAction(obs, again);
  ASSERT_EQ(exact.scalar_type(), torch::kFloat64);
  EXPECT_GT((action - exact).abs().max().item<double>(), 0.0) << "float32 rounds";
  EXPECT_LE((action - exact).abs().max().item<double>(), 1e-5);
}

void CopyWeights(Policy& from, Policy& to, double share = 1.0) {
  const torch::NoGradGuard no_grad;
  const auto sources = from.module().parameters();
  const auto targets = to.module().parameters();
  for (std::size_t i = 0; i < sources.size(); ++i) targets[i].lerp_(sources[i], share);
  to.WeightsChanged();
}

TEST(UnetHybridPolicy, PlansWithWeightsOfEachFormatAndOnSeveralThreads) {
  CheckWeightFormats(*MakeSmall("", "sample", "[64, 128]"));
  CheckWeightFormats(*MakeSmall(R"("obs_as_global_cond": false,)", "sample", "[64, 128]"));
}

TEST(UnetHybridPolicy, AStudentPlansInOneEvaluationWhatItsTeacherPlansInFive) {
  const auto teacher = MakeSmall("");
  Train(*teacher, 200);
  ASSERT_LE(TwoAnswers(*teacher).ErrorOf(*teacher), 0.08);
  // its answers mean something else than the teacher's, so it has to learn
  const auto student = MakeSmall(R"("objective": "consistency",)", "v_prediction");
  const auto average = MakeSmall(R"("objective": "consistency",)", "v_prediction");
  for (Policy* each : {teacher.get(), average.get()}) {
    for (torch::Tensor& weights : each->module().parameters()) weights.requires_grad_(false);
  }
  CopyWeights(*teacher, *student);
  CopyWeights(*teacher, *average);
  student->LearnFrom(*teacher, *average);
  EXPECT_GT(TwoAnswers(*student).ErrorOf(*student), 0.15);
  const torch::Tensor weights = teacher->module().parameters().front().clone();
  Train(*student, 500, [&] { CopyWeights(*student, *average, /*share=*/0.1); });
  // one evaluation of a network this small is not as exact as five; the mean action is 0.18 off
  EXPECT_LE(TwoAnswers(*student).ErrorOf(*student), 0.12);
  EXPECT_LE(TwoAnswers(*average).ErrorOf(*average), 0.12);
  EXPECT_TRUE(torch::equal(teacher->module().parameters().front(), weights));
}

TEST(UnetHybridPolicy, MaskedStepsDoNotCount) {
  const char* params = R"({"down_dims": [16], "diffusion_step_embed_dim": 16, "n_groups": 4,
                           "do_mask_loss_for_padding": true})";
  const auto policy = CreateSmallDiffusion(params);
  Batch batch = ZeroBatch(3);
  batch.is_pad.fill_(true);
  NoiseSource all = NoiseOfRows(3);
  EXPECT_EQ(policy->ComputeLoss(batch, all).loss.item<float>(), 0.0F);
  batch.is_pad.zero_();
  NoiseSource none = NoiseOfRows(3);
  EXPECT_GT(policy->ComputeLoss(batch, none).loss.item<float>(), 0.1F);
}

constexpr const char* kImage = R"({"down_dims": [16], "diffusion_step_embed_dim": 16, "n_groups": 4,
  "crop_shape": [64, 64], "obs_encoder": {"spatial_softmax_num_keypoints": 4},
  "noise_scheduler": {"num_train_timesteps": 4}})";

// The same image of noise in every row and step.
torch::Tensor Images(std::int64_t rows) {
  RandomStream stream(0, StreamId::kAugment);
  torch::Tensor image = torch::empty({3, 72, 72}, torch::kUInt8);
  for (std::int64_t i = 0; i < image.numel(); ++i) {
    image.mutable_data_ptr<std::uint8_t>()[i] = static_cast<std::uint8_t>(stream.UniformInt(256));
  }
  return image.expand({rows, 2, 3, 72, 72}).contiguous();
}

TEST(UnetHybridPolicy, TrainsAndPredictsFromImages) {
  const auto policy = CreateSmallDiffusion(kImage, SmallSpec(kImageSize));
  Batch batch = ZeroBatch(2);
  batch.obs["image"] = Images(2);
  ExpectTrainsAndPlans(*policy, batch, batch.obs);
}

TEST(UnetHybridPolicy, CropsAtRandomInTrainingAndAtTheCentreInEvaluation) {
  const auto policy = CreateSmallDiffusion(kImage, SmallSpec(kImageSize));
  const TensorMap obs = {{"agent_pos", torch::zeros({4, 2, 2})}, {"image", Images(4)}};
  const torch::NoGradGuard no_grad;
  const torch::Tensor centre = policy->EncodeObs(obs, nullptr);
  EXPECT_TRUE(torch::equal(centre[0], centre[1]));

  NoiseSource first = NoiseOfRows(4);
  NoiseSource again = NoiseOfRows(4);
  const torch::Tensor random = policy->EncodeObs(obs, &first);
  EXPECT_FALSE(torch::allclose(random[0], random[1]));
  EXPECT_TRUE(torch::equal(random, policy->EncodeObs(obs, &again)));
}

TEST(UnetHybridPolicy, CropsInPixelsOrFractionsOfTheImage) {
  const auto features = [](const char* crop) {
    torch::manual_seed(0);
    const std::string params = std::string(R"({"down_dims": [16], "n_groups": 4, "crop_shape": )") +
                               crop + R"(, "obs_encoder": {"spatial_softmax_num_keypoints": 4}})";
    const auto policy = CreateSmallDiffusion(params, SmallSpec(kImageSize));
    const torch::NoGradGuard no_grad;
    return policy->EncodeObs({{"agent_pos", torch::zeros({1, 2, 2})}, {"image", Images(1)}},
                             nullptr);
  };
  const torch::Tensor in_pixels = features("[63, 45]");  // of 72 x 72
  EXPECT_TRUE(torch::equal(in_pixels, features("[0.875, 0.625]")));
  EXPECT_TRUE(torch::equal(in_pixels, features("[0.88, 45]")));
  EXPECT_FALSE(torch::equal(in_pixels, features("[0.875, 0.64]")));
  EXPECT_TRUE(torch::equal(features("[72, 72]"), features("null")));
  EXPECT_TRUE(torch::equal(features("[1.0, 1]"), features("null"))) << "all of it, not a pixel";
}

TEST(UnetHybridPolicy, BatchNormKeepsItsStatisticsDuringPrediction) {
  const char* params = R"({"down_dims": [16], "diffusion_step_embed_dim": 16, "n_groups": 4,
    "obs_encoder": {"use_group_norm": false}, "noise_scheduler": {"num_train_timesteps": 4}})";
  const auto policy = CreateSmallDiffusion(params, SmallSpec(kImageSize));
  const TensorMap obs = {{"agent_pos", torch::zeros({2, 2, 2})}, {"image", Images(2)}};
  const torch::Tensor mean =
      policy->module().named_buffers()["diffusion.rgb_encoder.backbone.1.running_mean"];
  const torch::Tensor before = mean.clone();
  NoiseSource noise = NoiseOfRows(2);
  policy->PredictAction(obs, noise);
  EXPECT_TRUE(torch::equal(mean, before));
  EXPECT_TRUE(policy->module().is_training());
}

TEST(UnetHybridPolicy, SeparateEncodersAreNamedByCamera) {
  PolicySpec spec = SmallSpec(kImageSize);
  KeySpec second = spec.shape_meta.obs[1];
  second.name = "wrist";
  spec.shape_meta.obs.push_back(second);
  const auto policy = CreatePluginDiffusion(Config::FromJson(R"({"down_dims": [16], "n_groups": 4,
                                   "obs_encoder": {"use_separate_rgb_encoder_per_camera": true}})"),
                                            spec);
  const auto parameters = policy->module().named_parameters();
  EXPECT_TRUE(parameters.contains("diffusion.rgb_encoder.0.out.weight"));
  EXPECT_TRUE(parameters.contains("diffusion.rgb_encoder.1.backbone.4.0.conv1.weight"));
}

TEST(UnetHybridPolicy, SettingsThatCannotWorkAreExplained) {
  EXPECT_THAT(ConfigErrorOf(R"({"down_dims": [16, 32, 64, 64, 64], "n_groups": 4})", SmallSpec()),
              HasSubstr("horizon is 8"));
  EXPECT_THAT(ConfigErrorOf(R"({"down_dims": [12]})", SmallSpec()),
              HasSubstr("multiple of n_groups = 8"));
  EXPECT_THAT(ConfigErrorOf(R"({"down_dims": []})", SmallSpec()), HasSubstr("down_dims"));
  EXPECT_THAT(ConfigErrorOf(R"({"kernel_size": 4})", SmallSpec()), HasSubstr("kernel_size is 4"));
  EXPECT_THAT(ConfigErrorOf(R"({"crop_shape": [80, 20]})", SmallSpec(kImageSize)),
              HasSubstr("policy.json"));
  EXPECT_THAT(ConfigErrorOf(R"({"crop_shape": [0.9]})", SmallSpec(kImageSize)),
              HasSubstr("crop_shape: expected [height, width], found [0.9]"));
  for (const char* crop : {"[0, 20]", "[-0.5, 20]", "[20.5, 20]", "[1e300, 20]"}) {
    const std::string params = std::string(R"({"crop_shape": )") + crop + "}";
    EXPECT_THAT(ConfigErrorOf(params, SmallSpec(kImageSize)),
                HasSubstr("crop_shape: expected whole pixels, or fractions between 0 and 1, found"))
        << crop;
  }
  PolicySpec depth = SmallSpec();
  depth.shape_meta.obs.push_back(
      {.name = "depth", .type = KeyType::kDepth, .shape = {1, 4, 4}, .dtype = DType::kUInt16});
  EXPECT_THAT(ConfigErrorOf("{}", depth), HasSubstr("'depth' is depth"));
}

}  // namespace
}  // namespace dp_bench::unet_hybrid
