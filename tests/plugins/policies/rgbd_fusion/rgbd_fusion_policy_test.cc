#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <limits>
#include <string>

#include "dp_bench/error.h"
#include "dp_bench/policy/vision/vision_pipeline.h"
#include "evaluate/policy_planning.h"
#include "inspect/attention.h"
#include "support/double_policy.h"
#include "support/error_of.h"
#include "support/plugin_policy.h"
#include "support/small_policy.h"
#include "train/fit_normalizer.h"

namespace dp_bench::rgbd_fusion {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHeight = 24;
constexpr std::int64_t kWidth = 32;

constexpr const char* kSmall = R"({
  "crop_shape": [20, 28], "drop_n_last_frames": 3,
  "obs_encoder": {"resnet_width": 8, "resnet_stages": 2, "spatial_softmax_num_keypoints": 8,
                  "n_head": 2, "state_feature_dim": 16, "fusion": "residual"},
  "denoiser": {"n_layer": 2, "n_head": 2, "n_emb": 64, "p_drop_emb": 0.0, "p_drop_attn": 0.0},
  "noise_scheduler": {"type": "ddim", "num_train_timesteps": 20, "num_inference_steps": 5,
                      "prediction_type": "sample"}})";

// agent_pos [2] and a camera with depth in metres, T 8, To 2, Ta 4.
PolicySpec MakeSpec() {
  PolicySpec spec = SmallSpec();
  spec.shape_meta.obs.push_back({.name = "depth",
                                 .type = KeyType::kDepth,
                                 .shape = {1, kHeight, kWidth},
                                 .dtype = DType::kFloat32});
  spec.shape_meta.obs.push_back({.name = "image",
                                 .type = KeyType::kRgb,
                                 .shape = {3, kHeight, kWidth},
                                 .dtype = DType::kUInt8});
  return spec;
}

Normalizer NormalizerWithDepth() {
  Normalizer::Fields fields = SmallNormalizer().fields();
  fields.insert(train::FitKey("depth", {.min = {0.0}, .max = {2.0}}, NormalizeMode::kDepth));
  return Normalizer(std::move(fields));
}

std::unique_ptr<policy::DiffusionPolicy> MakeSmall(const std::string& params = kSmall) {
  return CreateSmallDiffusion(params, MakeSpec(), NormalizerWithDepth());
}

// Row i has its own image and depth map.
TensorMap MakeObs(std::int64_t rows) {
  NoiseSource source = NoiseOfRows(rows, /*major=*/77);
  const auto draw = [&](std::int64_t channels) {
    return source.Uniform(StreamId::kEnvStart, {rows, 1, kHeight, kWidth, channels})
        .permute({0, 1, 4, 2, 3})
        .expand({rows, 2, channels, kHeight, kWidth});
  };
  return {{"agent_pos", torch::zeros({rows, 2, 2})},
          {"depth", draw(1) * 2.0},
          {"image", (draw(3) * 255.0).to(torch::kUInt8)}};
}

TEST(RgbdFusionPolicy, LearnsEightSamplesByHeart) {
  std::string params = kSmall;
  params.replace(params.find("[20, 28]"), 8, "[24, 32]");  // nothing changes between two visits
  const auto policy = MakeSmall(params);
  const torch::Tensor action = NoiseOfRows(8).Uniform(StreamId::kEnvStart, {8, 8, 2}) * 2.0 - 1.0;
  const Batch batch = {
      .obs = MakeObs(8), .action = action, .is_pad = torch::zeros({8, 8}, torch::kBool)};
  torch::optim::Adam optimizer(policy->module().parameters(), torch::optim::AdamOptions(2e-3));
  double loss = 1.0;
  for (std::uint64_t step = 0; step < 800 && loss > 1e-3; ++step) {
    NoiseSource noise = NoiseOfRows(8, step);
    optimizer.zero_grad();
    const torch::Tensor of_step = policy->ComputeLoss(batch, noise).loss;
    of_step.backward();
    optimizer.step();
    loss = of_step.item<double>();
  }
  EXPECT_LE(loss, 1e-3);
}

TEST(RgbdFusionPolicy, PlansTheSameInFloat64) {
  const auto policy = MakeSmall();
  NoiseSource noise = NoiseOfRows(2);
  const torch::Tensor action = policy->PredictAction(MakeObs(2), noise);
  ToDouble(*policy, NormalizerWithDepth().fields());
  NoiseSource again = NoiseOfRows(2);
  const torch::Tensor exact = policy->PredictAction(MakeObs(2), again);
  ASSERT_EQ(exact.scalar_type(), torch::kFloat64);
  EXPECT_GT((action - exact).abs().max().item<double>(), 0.0) << "float32 rounds";
  EXPECT_LE((action - exact).abs().max().item<double>(), 1e-5);
}

TEST(RgbdFusionPolicy, ColourAndDepthOfARowAreCroppedAlike) {
  const auto policy = MakeSmall();
  // an image whose depth equals its red channel: they stay equal wherever the crop is
  PolicySpec spec = MakeSpec();
  const Config params = Config::FromJson(kSmall);
  const auto cameras = policy::FindCameras(params, spec);
  const policy::VisionPipeline pipeline(params, cameras);
  TensorMap obs = MakeObs(6);
  obs["depth"] = obs["image"].narrow(2, 0, 1).to(torch::kFloat32) / 255.0;
  const KeyStats colours = {.mean = {0.0, 0.0, 0.0}, .std = {1.0, 1.0, 1.0}};
  const Normalizer normalizer(
      {train::FitKey("image", colours, NormalizeMode::kImageGaussian),
       train::FitKey("depth", {.min = {0.0}, .max = {1.0}}, NormalizeMode::kDepth)});
  NoiseSource noise = NoiseOfRows(6);
  const policy::CameraView view = pipeline.Prepare(cameras[0], obs, normalizer, &noise);
  EXPECT_EQ(view.rgb.sizes(), torch::IntArrayRef({6, 2, 3, 20, 28}));
  EXPECT_LE((view.rgb.narrow(2, 0, 1) - view.depth).abs().max().item<double>(), 1e-5);
  const policy::CameraView centre = pipeline.Prepare(cameras[0], obs, normalizer, nullptr);
  EXPECT_FALSE(torch::allclose(view.depth, centre.depth));
}

// Of the cameras within the encoder, for each observed step, and of the actions.
TEST(RgbdFusionPolicy, AttentionNamesCamerasStepsAndTheState) {
  const auto policy = MakeSmall();
  const inspect::AttentionInspection inspection =
      inspect::InspectAttention(*policy, torch::kCPU, evaluate::SyntheticObs(policy->spec()));
  std::vector<std::string> names;
  for (const inspect::AttentionMap& map : inspection.maps) names.push_back(map.name);
  EXPECT_THAT(names,
              testing::ElementsAre(
                  "fusion, colour to colour, t-1", "fusion, colour to colour, t",
                  "fusion, depth to depth, t-1", "fusion, depth to depth, t",
                  "fusion, colour to depth, t-1", "fusion, colour to depth, t",
                  "fusion, depth to colour, t-1", "fusion, depth to colour, t",
                  "decoder layer 1, actions to actions", "decoder layer 1, actions to condition",
                  "decoder layer 2, actions to actions", "decoder layer 2, actions to condition"));
  EXPECT_THAT(inspection.maps[4].rows, testing::ElementsAre("colour of image"));
  EXPECT_THAT(inspection.maps[4].columns, testing::ElementsAre("depth of image"));
  EXPECT_THAT(
      inspection.maps[9].columns,
      testing::ElementsAre("timestep", "colour of image t-1", "depth of image t-1", "state t-1",
                           "colour of image t", "depth of image t", "state t"));
}

TEST(RgbdFusionPolicy, AUnetCanBeTheDenoiser) {
  const auto policy = MakeSmall(R"({
    "obs_encoder": {"resnet_width": 8, "resnet_stages": 2, "spatial_softmax_num_keypoints": 8,
                    "n_head": 2},
    "denoiser": {"type": "unet", "down_dims": [16], "diffusion_step_embed_dim": 16, "n_groups": 4},
    "noise_scheduler": {"num_train_timesteps": 4}})");
  NoiseSource noise = NoiseOfRows(2);
  EXPECT_EQ(policy->PredictAction(MakeObs(2), noise).sizes(), torch::IntArrayRef({2, 4, 2}));
}

TEST(RgbdFusionPolicy, ObservationsCanBeInpainted) {
  const auto policy = MakeSmall(R"({"obs_as_global_cond": false,
    "obs_encoder": {"resnet_width": 8, "resnet_stages": 2, "spatial_softmax_num_keypoints": 8,
                    "n_head": 2},
    "denoiser": {"n_layer": 1, "n_head": 2, "n_emb": 16},
    "noise_scheduler": {"num_train_timesteps": 4}})");
  Batch batch = ZeroBatch(2);
  batch.obs = MakeObs(2);
  for (auto& [key, value] : batch.obs) value = torch::cat({value, value, value, value}, 1);
  ExpectTrainsAndPlans(*policy, batch, MakeObs(2));
}

TEST(RgbdFusionPolicy, TheSamplersNumberOfDroppedFramesIsAccepted) {
  PolicySpec spec = MakeSpec();
  spec.horizons.drop_n_last_frames = 7;
  EXPECT_NE(CreatePluginDiffusion(Config::FromJson(R"({"drop_n_last_frames": 7})"), spec), nullptr);
}

TEST(RgbdFusionPolicy, DepthThatIsNotFiniteIsNamed) {
  const auto policy = MakeSmall();
  TensorMap obs = MakeObs(2);
  obs["depth"] = obs["depth"].clone();
  obs["depth"][1][0][0][3][4] = std::numeric_limits<float>::quiet_NaN();
  const std::string message = MessageOf(ErrorCode::kNumeric, [&] {
    NoiseSource noise = NoiseOfRows(2);
    policy->PredictAction(obs, noise);
  });
  EXPECT_THAT(message, HasSubstr("'depth' holds 1 values"));
}

TEST(RgbdFusionPolicy, AMissingCameraIsNamed) {
  const auto policy = MakeSmall();
  TensorMap obs = MakeObs(2);
  obs.erase("image");
  const std::string message = MessageOf(ErrorCode::kShape, [&] {
    NoiseSource noise = NoiseOfRows(2);
    policy->PredictAction(obs, noise);
  });
  EXPECT_THAT(message, HasSubstr("'image'"));
}

TEST(RgbdFusionPolicy, StatisticsOfOtherChannelsAreRefused) {
  const auto policy = MakeSmall();
  Normalizer::Fields fields = NormalizerWithDepth().fields();
  fields.at("image") =
      train::FitKey("image", {.mean = {0.5}, .std = {0.5}}, NormalizeMode::kImageGaussian).second;
  policy->SetNormalizer(Normalizer(std::move(fields)));
  const std::string message = MessageOf(ErrorCode::kShape, [&] {
    NoiseSource noise = NoiseOfRows(2);
    policy->PredictAction(MakeObs(2), noise);
  });
  EXPECT_THAT(message, HasSubstr("'image'"));
}

TEST(RgbdFusionPolicy, SettingsThatCannotWorkAreExplained) {
  EXPECT_THAT(ConfigErrorOf("{}", SmallSpec()), HasSubstr("needs a camera"));
  EXPECT_THAT(ConfigErrorOf(R"({"drop_n_last_frames": 7})", MakeSpec()),
              HasSubstr("drop_n_last_frames: expected 3, which is what the sampler leaves out, "
                        "found 7"));
  EXPECT_THAT(ConfigErrorOf(R"({"obs_encoder": {"n_head": 5}})", MakeSpec()),
              HasSubstr("n_head is 5"));
  EXPECT_THAT(ConfigErrorOf(R"({"crop_shape": [20, 40]})", MakeSpec()),
              HasSubstr("within the images of 'image'"));
  EXPECT_THAT(ConfigErrorOf(R"({"resize_shape": [20]})", MakeSpec()), HasSubstr("resize_shape"));
  EXPECT_THAT(ConfigErrorOf(R"({"depth_of": {"image": "deep"}})", MakeSpec()),
              HasSubstr("no depth key 'deep'"));

  PolicySpec two_cameras = MakeSpec();
  two_cameras.shape_meta.obs.push_back(two_cameras.shape_meta.obs.back());
  two_cameras.shape_meta.obs.back().name = "wrist";
  EXPECT_THAT(ConfigErrorOf("{}", two_cameras), HasSubstr("say which belong together"));
  EXPECT_THAT(ConfigErrorOf(R"({"depth_of": {"image": "depth"}})", two_cameras),
              HasSubstr("only one has depth"));
  PolicySpec other_size = MakeSpec();
  other_size.shape_meta.obs[1].shape = {1, kHeight, kWidth - 1};
  EXPECT_THAT(ConfigErrorOf("{}", other_size), HasSubstr("'depth' is [1, 24, 31]"));
}

}  // namespace
}  // namespace dp_bench::rgbd_fusion
