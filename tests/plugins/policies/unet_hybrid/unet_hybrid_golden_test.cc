// The whole policy compared with LeRobot's diffusion model with the same weights: conditioning,
// loss, gradients and a DDIM sample. The numbers come from tests/golden/generate/unet_hybrid.py.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "support/difference.h"
#include "support/golden.h"
#include "support/plugin_policy.h"
#include "train/fit_normalizer.h"

namespace dp_bench::unet_hybrid {
namespace {

// what the golden tests promise; the differences are float32 rounding, about 1e-6
constexpr double kTolerance = 1e-4;

constexpr const char* kParams = R"({
  "down_dims": [8, 16], "kernel_size": 5, "n_groups": 4, "diffusion_step_embed_dim": 8,
  "crop_shape": [32, 32], "obs_encoder": {"spatial_softmax_num_keypoints": 4},
  "noise_scheduler": {"type": "ddim", "num_train_timesteps": 50, "num_inference_steps": 5}})";

// Weights of ResNet-18 are not stored: element i is a hash of i, scaled as in the generator.
torch::Tensor BackboneValues(const torch::Tensor& like) {
  const torch::Tensor i = torch::arange(like.numel(), torch::kInt64);
  const torch::Tensor uniform =
      torch::remainder(i * 2654435761LL + 12345, 4294967296LL).to(torch::kFloat64) / 4294967296.0;
  if (like.dim() == 1) return (uniform + 0.5).to(torch::kFloat32);
  const double scale = std::sqrt(6.0 / static_cast<double>(like[0].numel()));
  return ((uniform * 2.0 - 1.0) * scale).to(torch::kFloat32).view(like.sizes());
}

// Without and with an image.
class UnetHybridGolden : public testing::TestWithParam<bool> {
 protected:
  UnetHybridGolden() {
    // leaves numbers as they are, and maps pixels to [-1, 1]
    policy_->SetNormalizer(train::NeutralNormalizer(MakeSpec().shape_meta, {}));
    const torch::NoGradGuard no_grad;
    for (const auto& item : policy_->module().named_parameters()) {
      const bool is_backbone = item.key().find("rgb_encoder.backbone") != std::string::npos;
      item.value().data().copy_(is_backbone ? BackboneValues(item.value()) : Get(item.key()));
    }
    policy_->WeightsChanged();
  }

  static const run::Safetensors& File() {
    return Golden(GetParam() ? "unet_hybrid_image" : "unet_hybrid_lowdim");
  }
  static torch::Tensor Get(const std::string& name) { return ToTensor(File().tensors.at(name)); }

  static PolicySpec MakeSpec() {
    PolicySpec spec;
    spec.shape_meta.obs = {{.name = "agent_pos", .shape = {5}}};
    if (GetParam()) {
      spec.shape_meta.obs.push_back(
          {.name = "cam", .type = KeyType::kRgb, .shape = {3, 34, 37}, .dtype = DType::kUInt8});
    } else {
      spec.shape_meta.obs.push_back({.name = "environment_state", .shape = {3}});
    }
    spec.shape_meta.action = {.name = "action", .shape = {2}};
    spec.horizons = {.horizon = 8, .n_obs_steps = 2, .n_action_steps = 4};
    return spec;
  }

  torch::Tensor Encode() {
    TensorMap obs = {{"agent_pos", Get("state")}};
    if (GetParam()) {
      obs["cam"] = Get("images");
    } else {
      obs["environment_state"] = Get("environment_state");
    }
    return policy_->EncodeObs(obs, /*augment=*/nullptr);
  }

  std::unique_ptr<policy::DiffusionPolicy> policy_ =
      CreatePluginDiffusion(Config::FromJson(kParams), MakeSpec());
};

TEST_P(UnetHybridGolden, TensorNamesAndShapesAreLeRobots) {
  const auto listed = nlohmann::json::parse(File().metadata.at("names"));
  const std::set<std::string> expected = listed.get<std::set<std::string>>();
  std::set<std::string> found;
  for (const auto& item : policy_->module().named_parameters()) found.insert(item.key());
  for (const auto& item : policy_->module().named_buffers()) found.insert(item.key());
  EXPECT_EQ(found, expected);
}

TEST_P(UnetHybridGolden, BuffersEqualLeRobots) {
  for (const auto& item : policy_->module().named_buffers()) {
    EXPECT_LE(Difference(item.value(), Get(item.key())), 1e-7) << item.key();
  }
}

TEST_P(UnetHybridGolden, ConditioningAgrees) {
  const torch::Tensor global_cond = Encode().flatten(1);
  EXPECT_LE(Difference(global_cond, Get("global_cond")), kTolerance);
}

TEST_P(UnetHybridGolden, LossAndGradientsAgree) {
  const torch::Tensor cond = Encode();
  const torch::Tensor prediction =
      policy_->denoiser().Forward(Get("noisy"), Get("timesteps"), cond, /*noise=*/nullptr);
  EXPECT_LE(Difference(prediction.detach(), Get("prediction")), kTolerance);

  const torch::Tensor loss = torch::mse_loss(prediction, Get("epsilon"));
  EXPECT_LE(Difference(loss.detach().reshape({1}), Get("loss")), kTolerance);
  loss.backward();
  int n_gradients = 0;
  const auto parameters = policy_->module().named_parameters();
  for (const auto& [name, array] : File().tensors) {
    if (name.rfind("grad.", 0) != 0) continue;
    ++n_gradients;
    const torch::Tensor found = parameters["diffusion." + name.substr(5)].grad();
    EXPECT_LE(RelativeDifference(found, ToTensor(array)), kTolerance) << name;
  }
  EXPECT_GE(n_gradients, 10);
}

TEST_P(UnetHybridGolden, ADdimSampleAgrees) {
  NoiseSource noise({NoiseKey{}, NoiseKey{}, NoiseKey{}});
  const torch::Tensor sampled =
      policy_->ConditionalSample(Get("global_cond"), Get("initial_noise"), noise);
  EXPECT_LE(Difference(sampled, Get("sampled")), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Inputs, UnetHybridGolden, testing::Values(false, true),
                         [](const auto& param) { return param.param ? "Image" : "LowDim"; });

}  // namespace
}  // namespace dp_bench::unet_hybrid
