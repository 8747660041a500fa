#include <cmath>
#include <functional>

#include "harness/policy/denoiser_check.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kObs = 5;  // Do

constexpr const char* kSmall = R"("n_layer": 2, "n_head": 2, "n_emb": 24)";

struct TransformerSettings {
  std::string params;
  bool inpaints_obs = false;  // the observations are part of the sample
  std::int64_t task_dim = 0;  // of the features

  std::int64_t obs_feature_dim() const { return inpaints_obs ? 0 : kObs; }
};

// All configurations of the network.
std::vector<TransformerSettings> Variants() {
  return {{""},
          {R"(, "causal_attn": true, "n_cond_layers": 2)"},
          {R"(, "norm": "post", "qkv_bias": false, "position": "sinusoidal")"},
          {R"(, "obs_as_cond": false)"},
          {R"(, "obs_as_cond": false, "time_as_cond": false, "causal_attn": true)"},
          {R"(, "n_cond_layers": 1, "norm": "post")"},
          {R"(, "time_embedding": "mlp")"},
          {R"(, "time_embedding": "mlp")", /*inpaints_obs=*/true},
          {"", false, /*task_dim=*/2},
          {R"(, "n_cond_layers": 1)", false, /*task_dim=*/2}};
}

MadeDenoiser MakeTransformer(const TransformerSettings& settings) {
  MadeDenoiser made =
      MakeDenoiserFrom(MakeTransformerDenoiser, std::string("{") + kSmall + settings.params + "}",
                       settings.obs_feature_dim(), settings.inpaints_obs, settings.task_dim);
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : made.module->parameters()) {
    parameter.add_(torch::randn_like(parameter) * 0.1);
  }
  return made;
}

class TransformerVariant : public testing::TestWithParam<TransformerSettings> {
 protected:
  const MadeDenoiser made_ = MakeTransformer(GetParam());
};

TEST_P(TransformerVariant, FloatEqualsDoubleWithGradients) {
  ExpectFloatEqualsDouble(made_, MakeDenoiserInputs(3, GetParam().obs_feature_dim()));
}

TEST_P(TransformerVariant, ConditionEqualsForwardAtTheSameTimestep) {
  const torch::NoGradGuard no_grad;
  for (const std::int64_t batch : {1, 3, 17}) {
    ExpectConditionEqualsForward(made_, MakeDenoiserInputs(batch, GetParam().obs_feature_dim()));
  }
}

TEST_P(TransformerVariant, ARowDependsNeitherOnItsCompanionsNorOnItsPlace) {
  const torch::NoGradGuard no_grad;
  ExpectIndependentRows(made_, GetParam().obs_feature_dim(), /*also_alone=*/true);
}

INSTANTIATE_TEST_SUITE_P(All, TransformerVariant, testing::ValuesIn(Variants()));

// the matrix products choose their kernels by size
TEST(DiffusionTransformer, ARowOfALargeNetworkIsIndependentToo) {
  const torch::NoGradGuard no_grad;
  const char* params = R"({"n_layer": 2, "n_head": 4, "n_emb": 256})";
  ExpectIndependentRows(MakeDenoiserFrom(MakeTransformerDenoiser, params, kObs), kObs,
                        /*also_alone=*/true);
}

TEST(DiffusionTransformer, DropCachesMakesConditionReadTheWeightsAgain) {
  const torch::NoGradGuard no_grad;
  ExpectDropCachesReadsTheWeightsAgain(MakeTransformer({""}), MakeDenoiserInputs(4, kObs));
}

TEST(DiffusionTransformer, TheTaskScalesAndShiftsTheObservationTokens) {
  const torch::NoGradGuard no_grad;
  const MadeDenoiser made = MakeTransformer({"", false, /*task_dim=*/2});
  const DenoiserInputs in = MakeDenoiserInputs(3, kObs);
  torch::Tensor other = in.cond.clone();
  other.slice(2, 0, kObs - 2).add_(1.0);  // the same task
  const auto answer = [&](const torch::Tensor& cond) {
    return made.Forward(in.sample, in.times, cond);
  };
  EXPECT_FALSE(torch::equal(answer(in.cond), answer(other)));

  // a scale of 0 leaves nothing of the observation but the shift of the task
  auto parameters = made.module->named_parameters();
  torch::Tensor& scale = *parameters.find("transformer.task_film.weight");
  torch::Tensor& bias = *parameters.find("transformer.task_film.bias");
  const std::int64_t d = bias.size(0) / 2;
  scale.slice(0, 0, d).zero_();
  bias.slice(0, 0, d).fill_(-1.0);
  EXPECT_TRUE(torch::equal(answer(in.cond), answer(other)));
  other.slice(2, kObs - 2).add_(1.0);
  EXPECT_FALSE(torch::equal(answer(in.cond), answer(other)));
}

// `std_of`: standard deviation of the initial weights of a layer with that number of inputs.
void ExpectInitialWeights(const char* params, const std::function<double(double)>& std_of) {
  const MadeDenoiser made = MakeDenoiserFrom(MakeTransformerDenoiser, params, kObs);
  for (const auto& item : made.module->named_parameters()) {
    const std::string& name = item.key();
    const bool is_norm = name.find("norm") != std::string::npos || name.find("ln_f") != name.npos;
    if (name.ends_with("bias")) {
      EXPECT_EQ(item.value().abs().max().item<float>(), 0.0F) << name;
    } else if (is_norm) {
      EXPECT_EQ((item.value() - 1.0).abs().max().item<float>(), 0.0F) << name;
    } else {
      const bool is_position = name.find("pos_emb") != name.npos;
      const double std = is_position ? 0.02 : std_of(static_cast<double>(item.value().size(1)));
      EXPECT_NEAR(item.value().std().item<double>(), std, 0.1 * std) << name;
    }
  }
}

TEST(DiffusionTransformer, StartsAsUpstreamDoes) {
  ExpectInitialWeights("{}", [](double) { return 0.02; });
}

TEST(DiffusionTransformer, WithFanInALayerKeepsTheScaleOfItsInputs) {
  ExpectInitialWeights(R"({"weight_init": "fan_in"})", [](double n) { return 1.0 / std::sqrt(n); });
}

}  // namespace
}  // namespace dp_bench::policy
