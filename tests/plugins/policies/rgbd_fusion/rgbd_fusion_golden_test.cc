// The observation encoder compared with a plain PyTorch one with the same weights, from raw
// images to the condition: inputs of the image encoders, the condition, all gradients. The
// numbers come from tests/golden/generate/rgbd_fusion.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dp_bench/policy/vision/vision_pipeline.h"
#include "support/difference.h"
#include "support/golden.h"
#include "support/plugin_policy.h"
#include "train/fit_normalizer.h"

namespace dp_bench::rgbd_fusion {
namespace {

// float32 rounding through a dozen layers; relative to the largest element
constexpr double kTolerance = 1e-4;

struct Case {
  const char* name;  // in the file
  std::int64_t n_cameras;
  bool has_depth;
  const char* fusion;
};

constexpr Case kCases[] = {{"seed", 3, true, "seed"},
                           {"seed_colour", 2, false, "seed"},
                           {"residual", 2, true, "residual"},
                           {"residual_colour", 1, false, "residual"}};

constexpr const char* kParams = R"({
  "crop_shape": [24, 32], "resize_shape": [18, 24], "denoiser": {"type": "unet", "down_dims": [8]},
  "obs_encoder": {"resnet_width": 8, "resnet_stages": 2, "spatial_softmax_num_keypoints": 4,
                  "n_head": 2, "state_feature_dim": 6, "fusion": "%s"}})";

class RgbdFusionGolden : public testing::TestWithParam<Case> {
 protected:
  RgbdFusionGolden() {
    const torch::NoGradGuard no_grad;
    for (const auto& item : Weights()) item.value().copy_(Get("weight." + item.key()));
  }

  torch::Tensor Get(const std::string& name) const {
    return ToTensor(Golden("rgbd_fusion").tensors.at(GetParam().name + ("." + name)));
  }

  // Those of the encoder, without the prefix of the policy.
  torch::OrderedDict<std::string, torch::Tensor> Weights() const {
    const std::string prefix = "diffusion.";
    torch::OrderedDict<std::string, torch::Tensor> weights;
    for (const auto& item : policy_->module().named_parameters()) {
      if (item.key().starts_with(prefix + "unet.")) continue;
      weights.insert(item.key().substr(prefix.size()), item.value());
    }
    return weights;
  }

  static std::string Key(const char* prefix, std::int64_t camera) {
    return prefix + std::to_string(camera);
  }

  static PolicySpec MakeSpec() {
    PolicySpec spec;
    for (std::int64_t i = 0; i < GetParam().n_cameras && GetParam().has_depth; ++i) {
      spec.shape_meta.obs.push_back({.name = Key("depth_", i),
                                     .type = KeyType::kDepth,
                                     .shape = {1, 26, 36},
                                     .dtype = DType::kUInt16});
    }
    for (std::int64_t i = 0; i < GetParam().n_cameras; ++i) {
      spec.shape_meta.obs.push_back({.name = Key("image_", i),
                                     .type = KeyType::kRgb,
                                     .shape = {3, 26, 36},
                                     .dtype = DType::kUInt8});
    }
    spec.shape_meta.obs.push_back({.name = "state", .shape = {5}});
    spec.shape_meta.action = {.name = "action", .shape = {2}};
    spec.horizons = {.horizon = 8, .n_obs_steps = 2, .n_action_steps = 4};
    return spec;
  }

  static Normalizer MakeNormalizer() {
    Normalizer::Fields fields;
    for (const KeySpec& key : MakeSpec().shape_meta.obs) {
      if (key.type == KeyType::kRgb) {
        fields.insert(train::FitKey(key.name, {.mean = {0.4, 0.5, 0.6}, .std = {0.2, 0.25, 0.3}},
                                    NormalizeMode::kImageGaussian));
      } else if (key.type == KeyType::kDepth) {
        fields.insert(
            train::FitKey(key.name, {.min = {0.05}, .max = {1.5}}, NormalizeMode::kDepth));
      } else {
        fields.insert(train::FitKey(key.name, {.min = std::vector<double>(5, -1.0)},
                                    NormalizeMode::kIdentity));
      }
    }
    fields.insert(train::FitKey("action", {.min = {-1.0, -1.0}}, NormalizeMode::kIdentity));
    return Normalizer(std::move(fields));
  }

  TensorMap MakeObs() const {
    TensorMap obs = {{"state", Get("state")}};
    for (std::int64_t i = 0; i < GetParam().n_cameras; ++i) {
      // stored [H, W, C], as in batches
      const auto stored = [](const torch::Tensor& x) {
        return x.permute({0, 1, 3, 4, 2}).contiguous().permute({0, 1, 4, 2, 3});
      };
      obs[Key("image_", i)] = stored(Get("pixels").select(2, i));
      if (!GetParam().has_depth) continue;
      obs[Key("depth_", i)] = stored(Get("millimetres").select(2, i)).to(torch::kUInt16);
    }
    return obs;
  }

  static Config MakeParams() {
    std::string text = kParams;
    text.replace(text.find("%s"), 2, GetParam().fusion);
    return Config::FromJson(text);
  }

  std::unique_ptr<policy::DiffusionPolicy> policy_ =
      CreatePluginDiffusion(MakeParams(), MakeSpec());
};

TEST_P(RgbdFusionGolden, TheConditionAndAllGradientsAgree) {
  policy_->SetNormalizer(MakeNormalizer());
  const torch::Tensor cond = policy_->EncodeObs(MakeObs(), /*augment=*/nullptr);
  EXPECT_EQ(cond.size(-1), policy_->channels().cond);
  EXPECT_LE(RelativeDifference(cond.detach(), Get("cond")), kTolerance);
  (cond * Get("cond_weight")).sum().backward();
  for (const auto& item : Weights()) {
    EXPECT_LE(RelativeDifference(item.value().grad(), Get("grad." + item.key())), kTolerance)
        << item.key();
  }
}

TEST_P(RgbdFusionGolden, HasTheParametersOfTheReferenceAndNoOthers) {
  const std::string prefix = GetParam().name + std::string(".weight.");
  std::set<std::string> expected;
  for (const auto& [name, array] : Golden("rgbd_fusion").tensors) {
    if (name.starts_with(prefix)) expected.insert(name.substr(prefix.size()));
  }
  std::set<std::string> found;
  for (const auto& item : Weights()) found.insert(item.key());
  EXPECT_EQ(found, expected);
}

// The file holds the images of one case.
class VisionPipelineGolden : public RgbdFusionGolden {};

TEST_P(VisionPipelineGolden, ShowsTheEncodersWhatTheReferenceSees) {
  const Config params = MakeParams();
  const std::vector<policy::Camera> cameras = policy::FindCameras(params, MakeSpec());
  const policy::VisionPipeline pipeline(params, cameras);
  const policy::CameraView view =
      pipeline.Prepare(cameras[1], MakeObs(), MakeNormalizer(), /*augment=*/nullptr);
  EXPECT_LE(RelativeDifference(view.rgb, Get("rgb")), 1e-5);
  EXPECT_LE(RelativeDifference(view.depth, Get("depth")), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Seed, VisionPipelineGolden, testing::Values(kCases[0]));
INSTANTIATE_TEST_SUITE_P(Variants, RgbdFusionGolden, testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace dp_bench::rgbd_fusion
