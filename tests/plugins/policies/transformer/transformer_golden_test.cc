// The whole policy compared with a network of PyTorch's modules with the same weights: prediction,
// loss, gradients and a DDIM sample. The numbers come from tests/golden/generate/transformer.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "support/difference.h"
#include "support/golden.h"
#include "support/plugin_policy.h"
namespace dp_bench::transformer {
namespace {

// float32 rounding through a dozen layers; relative to the largest element
constexpr double kTolerance = 2e-5;

struct Case {
  const char* name;  // in the file
  const char* params;
};

constexpr Case kCases[] = {
    {"plain", ""},
    {"causal", R"("causal_attn": true, "n_cond_layers": 2,)"},
    {"post_norm", R"("norm": "post", "qkv_bias": false, "position": "sinusoidal",)"},
    {"inputs", R"("obs_as_cond": false, "causal_attn": true,)"},
    {"encoder_only", R"("obs_as_cond": false, "time_as_cond": false, "causal_attn": true,)"},
    {"time_mlp", R"("time_embedding": "mlp",)"},
    {"inpainting", R"("obs_as_global_cond": false, "causal_attn": true, "n_cond_layers": 1,)"}};

PolicySpec MakeSpec() {
  PolicySpec spec;
  spec.shape_meta.obs = {{.name = "agent_pos", .shape = {5}},
                         {.name = "environment_state", .shape = {3}}};
  spec.shape_meta.action = {.name = "action", .shape = {2}};
  spec.horizons = {.horizon = 8, .n_obs_steps = 2, .n_action_steps = 4};
  return spec;
}

class TransformerGolden : public testing::TestWithParam<Case> {
 protected:
  TransformerGolden() {
    const torch::NoGradGuard no_grad;
    for (const auto& item : Tensors()) {
      item.value().copy_(Get("weight." + item.key().substr(kPrefix.size())));
    }
    policy_->WeightsChanged();
  }

  torch::Tensor Get(const std::string& name) const {
    return ToTensor(Golden("transformer").tensors.at(GetParam().name + ("." + name)));
  }

  // Parameters and buffers.
  torch::OrderedDict<std::string, torch::Tensor> Tensors() const {
    auto tensors = policy_->module().named_parameters();
    tensors.update(policy_->module().named_buffers());
    return tensors;
  }

  torch::Tensor Predict() const {
    const torch::Tensor noisy = Get("noisy");
    const bool inpaints = noisy.size(2) > 2;  // then the sequence is the only input
    const torch::Tensor cond = inpaints ? Get("cond").slice(2, 0, 0) : Get("cond");
    return policy_->denoiser().Forward(noisy, Get("timesteps"), cond, nullptr);
  }

  inline static const std::string kPrefix = "diffusion.transformer.";
  std::unique_ptr<policy::DiffusionPolicy> policy_ =
      CreatePluginDiffusion(Config::FromJson(std::string("{") + GetParam().params + R"(
        "n_layer": 2, "n_head": 2, "n_emb": 12,
        "noise_scheduler": {"type": "ddim", "num_train_timesteps": 50, "num_inference_steps": 5}})"),
                            MakeSpec());
};

TEST_P(TransformerGolden, TensorNamesAreThoseOfTransformerForDiffusion) {
  const std::string prefix = std::string(GetParam().name) + ".weight.";
  std::set<std::string> expected;
  for (const auto& [name, array] : Golden("transformer").tensors) {
    if (name.starts_with(prefix)) expected.insert(kPrefix + name.substr(prefix.size()));
  }
  std::set<std::string> found;
  for (const auto& item : Tensors()) found.insert(item.key());
  EXPECT_EQ(found, expected);
}

TEST_P(TransformerGolden, LossAndGradientsAgree) {
  const torch::Tensor prediction = Predict();
  EXPECT_LE(RelativeDifference(prediction.detach(), Get("prediction")), kTolerance);
  const torch::Tensor loss = torch::mse_loss(prediction, Get("epsilon"));
  EXPECT_LE(RelativeDifference(loss.detach().reshape({1}), Get("loss")), kTolerance);
  loss.backward();
  for (const auto& item : policy_->module().named_parameters()) {
    const torch::Tensor expected = Get("grad." + item.key().substr(kPrefix.size()));
    EXPECT_LE(RelativeDifference(item.value().grad(), expected), kTolerance) << item.key();
  }
}

TEST_P(TransformerGolden, ADdimSampleAgrees) {
  NoiseSource noise({NoiseKey{}, NoiseKey{}, NoiseKey{}});
  const torch::Tensor sampled =
      policy_->ConditionalSample(Get("cond"), Get("initial_noise"), noise);
  EXPECT_LE(RelativeDifference(sampled, Get("sampled")), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Variants, TransformerGolden, testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace dp_bench::transformer
