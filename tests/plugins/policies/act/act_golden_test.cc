// ACT compared with LeRobot's on the same weights: every layer, the plan, losses and gradients. The
// numbers come from tests/golden/generate/act.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "act_network.h"
#include "policy/stage_recorder.h"
#include "support/difference.h"
#include "support/golden.h"
#include "support/plugin_policy.h"
#include "train/fit_normalizer.h"
namespace dp_bench::act {
namespace {

// float32 rounding; relative to the largest element where that is above 1
constexpr double kTolerance = 1e-5;
constexpr std::int64_t kRows = 3;
constexpr std::int64_t kLatentDim = 4;

struct Case {
  const char* name;  // in the file
  const char* params;
  bool has_env_state = true;
  int n_cameras = 0;
};

constexpr Case kCases[] = {
    {"state", R"("n_encoder_layers": 2, "n_vae_encoder_layers": 2,)"},
    {"images", R"("n_encoder_layers": 1, "n_vae_encoder_layers": 1,)", false, 2},
    {"pre_norm",
     R"("pre_norm": true, "n_encoder_layers": 1, "n_vae_encoder_layers": 1,
        "feedforward_activation": "gelu", "n_decoder_layers": 2,)"},
    {"no_vae", R"("use_vae": false, "n_encoder_layers": 1, "n_vae_encoder_layers": 2,)"}};

constexpr const char* kParams = R"("dim_model": 8, "n_heads": 2, "dim_feedforward": 12,
    "latent_dim": 4, "dropout": 0.0,
    "obs_encoder": {"resnet_width": 8, "resnet_stages": 2}})";

PolicySpec MakeSpec(const Case& c) {
  PolicySpec spec;
  if (c.has_env_state) spec.shape_meta.obs.push_back({.name = "block", .shape = {5}});
  for (int i = 0; i < c.n_cameras; ++i) {
    spec.shape_meta.obs.push_back({.name = "camera" + std::to_string(i),
                                   .type = KeyType::kRgb,
                                   .shape = {3, 32, 40},
                                   .dtype = DType::kUInt8});
  }
  spec.shape_meta.obs.push_back({.name = "joints", .shape = {3}});
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  spec.horizons = {.horizon = 6, .n_obs_steps = 1, .n_action_steps = 6};
  return spec;
}

class ActGolden : public testing::TestWithParam<Case> {
 protected:
  ActGolden() {
    // leaves numbers as they are, and maps pixels to [-1, 1]
    policy_->SetNormalizer(train::NeutralNormalizer(policy_->spec().shape_meta, {}));
    const torch::NoGradGuard no_grad;
    for (const auto& item : Tensors()) item.value().copy_(Get("weight." + item.key()));
    policy_->WeightsChanged();
  }

  torch::Tensor Get(const std::string& name) const {
    return ToTensor(Golden("act").tensors.at(GetParam().name + ("." + name)));
  }
  bool Has(const std::string& name) const {
    return Golden("act").tensors.contains(GetParam().name + ("." + name));
  }

  // Parameters and buffers.
  torch::OrderedDict<std::string, torch::Tensor> Tensors() const {
    auto tensors = policy_->module().named_parameters();
    tensors.update(policy_->module().named_buffers());
    return tensors;
  }

  TensorMap Obs() const {
    TensorMap obs = {{"joints", Get("observation.state").unsqueeze(1)}};
    if (GetParam().has_env_state) {
      obs["block"] = Get("observation.environment_state").unsqueeze(1);
    }
    for (int i = 0; i < GetParam().n_cameras; ++i) {
      obs["camera" + std::to_string(i)] = Get("pixels." + std::to_string(i)).unsqueeze(1);
    }
    return obs;
  }

  double Loss() {
    NoiseSource noise = NoiseOfRows(kRows);
    const Batch batch = {
        .obs = Obs(), .action = Get("action"), .is_pad = Get("action_is_pad").to(torch::kBool)};
    output_ = policy_->ComputeLoss(batch, noise);
    return output_.loss.item<double>();
  }

  void ExpectLoss(double found, const char* name) const {
    const auto expected = Get(name).item<double>();
    EXPECT_NEAR(found, expected, kTolerance * std::max(1.0, expected)) << name;
  }

  std::unique_ptr<Policy> policy_ = CreatePluginPolicy(
      Config::FromJson(std::string("{") + GetParam().params +
                       (GetParam().has_env_state ? R"("env_state_keys": ["block"],)" : "") +
                       kParams),
      MakeSpec(GetParam()));
  LossOutput output_;
};

TEST_P(ActGolden, TensorNamesAreThoseOfLerobot) {
  const std::string prefix = std::string(GetParam().name) + ".weight.";
  std::set<std::string> expected;
  for (const auto& [name, array] : Golden("act").tensors) {
    if (name.starts_with(prefix)) expected.insert(name.substr(prefix.size()));
  }
  std::set<std::string> found;
  for (const auto& item : Tensors()) found.insert(item.key());
  EXPECT_EQ(found, expected);
}

TEST_P(ActGolden, PlansAgree) {
  NoiseSource noise = NoiseOfRows(kRows);
  EXPECT_LE(RelativeDifference(policy_->PredictAction(Obs(), noise), Get("plan")), kTolerance);
}

TEST_P(ActGolden, EveryLayerAgreesInATrainingStep) {
  const auto network =
      std::dynamic_pointer_cast<ActNetworkImpl>(policy_->module().named_children()["model"]);
  ASSERT_NE(network, nullptr);
  TensorMap stages;
  torch::Tensor prediction;
  for (const bool has_gradient : {true, false}) {  // LibTorch's products, and our own
    SCOPED_TRACE(has_gradient);
    stages.clear();
    const torch::AutoGradMode mode(has_gradient);
    const policy::StageRecorder recorder([&](std::string_view name, const torch::Tensor& tensor) {
      stages.emplace(name, tensor.detach().clone());
    });
    torch::Tensor latent = torch::zeros({kRows, kLatentDim});
    if (Has("stage.latent distribution")) {
      const LatentDistribution encoded =
          network->EncodeActions(Get("observation.state"), Get("action"),
                                 Get("action_is_pad").to(torch::kBool), /*dropout=*/nullptr);
      latent = encoded.mean + torch::exp(encoded.log_var / 2) * Get("noise");
    }
    ActObs obs = {.state = Get("observation.state")};
    if (GetParam().has_env_state) obs.env_state = Get("observation.environment_state");
    std::vector<torch::Tensor> images;
    for (int i = 0; i < GetParam().n_cameras; ++i) {
      images.push_back(Get("pixels." + std::to_string(i)).to(torch::kFloat32) / 127.5 - 1.0);
    }
    if (!images.empty()) obs.images = torch::stack(images, /*dim=*/1);
    prediction = network->forward(obs, latent, /*dropout=*/nullptr);
    EXPECT_LE(RelativeDifference(prediction.detach(), Get("prediction")), kTolerance);

    const std::string prefix = std::string(GetParam().name) + ".stage.";
    int n_compared = 0;
    for (const auto& [name, array] : Golden("act").tensors) {
      if (!name.starts_with(prefix)) continue;
      const std::string stage = name.substr(prefix.size());
      ASSERT_TRUE(stages.contains(stage)) << stage;
      EXPECT_LE(RelativeDifference(stages.at(stage), ToTensor(array)), kTolerance) << stage;
      ++n_compared;
    }
    EXPECT_GE(n_compared, 5);
  }
}

// Where the latent's deviation is next to nothing, the noise does not matter.
TEST_P(ActGolden, LossesAndGradientsAgree) {
  policy_->module().eval();
  ExpectLoss(Loss(), "validation_loss");

  policy_->module().train();
  if (Has("kld_loss")) {
    const torch::NoGradGuard no_grad;
    const std::string name = "model.vae_encoder_latent_output_proj.";
    Tensors()[name + "bias"].slice(0, kLatentDim).fill_(-40);
    Tensors()[name + "weight"].slice(0, kLatentDim).fill_(0);
  }
  ExpectLoss(Loss(), "training_loss");
  ExpectLoss(output_.parts.at("l1_loss").item<double>(), "l1_loss");
  EXPECT_EQ(output_.parts.contains("kld_loss"), Has("kld_loss"));
  output_.loss.backward();
  for (const auto& item : policy_->module().named_parameters()) {
    if (item.key().find("backbone") != std::string::npos) continue;
    EXPECT_LE(RelativeDifference(item.value().grad(), Get("grad." + item.key())), kTolerance)
        << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(Variants, ActGolden, testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace dp_bench::act
