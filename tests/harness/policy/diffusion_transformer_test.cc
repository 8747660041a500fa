#include "policy/networks/diffusion_transformer.h"

#include "harness/policy/gradient_check.h"

namespace dp_bench::policy {
namespace {

constexpr std::int64_t kObs = 5;  // Do

TransformerConfig Small() {
  return {.action_dim = 2,
          .obs_feature_dim = kObs,
          .n_layer = 2,
          .n_head = 2,
          .n_emb = 24,
          .p_drop_emb = 0.1,
          .p_drop_attn = 0.1};
}

// All configurations of the network.
std::vector<TransformerConfig> Variants() {
  std::vector<TransformerConfig> variants(8, Small());
  variants[1].causal_attn = true;
  variants[1].n_cond_layers = 2;
  variants[2].is_pre_norm = false;
  variants[2].has_qkv_bias = false;
  variants[2].is_position_learned = false;
  variants[3].obs_as_cond = false;
  variants[4].obs_as_cond = variants[4].time_as_cond = false;
  variants[4].causal_attn = true;
  variants[5].n_cond_layers = 1;
  variants[5].is_pre_norm = false;
  variants[6].has_time_mlp = true;
  // inpainting: the observations are part of the sample
  variants[7].obs_as_cond = false;
  variants[7].obs_feature_dim = 0;
  variants[7].has_time_mlp = true;
  return variants;
}

DiffusionTransformer MakeNet(const TransformerConfig& config) {
  torch::manual_seed(3);
  DiffusionTransformer net(config);
  const torch::NoGradGuard no_grad;
  for (torch::Tensor& parameter : net->parameters()) {
    parameter.add_(torch::randn_like(parameter) * 0.1);
  }
  return net;
}

struct Inputs {
  torch::Tensor sample;
  torch::Tensor timesteps;
  torch::Tensor cond;
};

Inputs MakeInputs(std::int64_t batch, std::int64_t obs_feature_dim = kObs) {
  torch::manual_seed(4);
  return {torch::randn({batch, 16, 2}), torch::randint(100, {batch}, torch::kInt64),
          torch::randn({batch, 2, obs_feature_dim})};
}

class TransformerVariant : public testing::TestWithParam<TransformerConfig> {};

// this also compares the CPU's loops with LibTorch's operators, which float64 uses
TEST_P(TransformerVariant, FloatEqualsDoubleWithGradients) {
  DiffusionTransformer net = MakeNet(GetParam());
  const Inputs in = MakeInputs(3, GetParam().obs_feature_dim);
  const torch::Tensor weights = torch::linspace(-1.0, 1.5, 96).view({3, 16, 2});
  const torch::Tensor found = net->forward(in.sample, in.timesteps, in.cond);
  const auto grads = torch::autograd::grad({(found * weights).sum()}, net->parameters());

  net->to(torch::kFloat64);
  const torch::Tensor expected =
      net->forward(in.sample.to(torch::kFloat64), in.timesteps, in.cond.to(torch::kFloat64));
  EXPECT_LE(RelativeDifference(found, expected), kRounding);
  const auto expected_grads =
      torch::autograd::grad({(expected * weights).sum()}, net->parameters());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    EXPECT_LE(RelativeDifference(grads[i], expected_grads[i]), kRounding) << "parameter " << i;
  }
}

TEST_P(TransformerVariant, PredictEqualsForwardAtTheSameTimestep) {
  const torch::NoGradGuard no_grad;
  DiffusionTransformer net = MakeNet(GetParam());
  for (const std::int64_t batch : {1, 3, 17}) {
    const Inputs in = MakeInputs(batch, GetParam().obs_feature_dim);
    const auto conditioning = net->Condition({90, 30, 0}, in.cond);
    for (std::int64_t step = 0; const std::int64_t t : {90, 30, 0}) {
      const torch::Tensor timesteps = torch::full({batch}, t, torch::kInt64);
      EXPECT_LE(RelativeDifference(net->Predict(in.sample, conditioning, step++),
                                   net->forward(in.sample, timesteps, in.cond)),
                kRounding)
          << "batch " << batch << ", timestep " << t;
    }
  }
}

// A shuffled batch must give the shuffled result, and a batch of one the row of the whole batch,
// bit for bit.
void ExpectIndependentRows(DiffusionTransformerImpl& net, std::int64_t obs_feature_dim = kObs) {
  for (const std::int64_t batch : {2, 3, 7, 16, 50}) {
    const Inputs in = MakeInputs(batch, obs_feature_dim);
    const torch::Tensor order = torch::randperm(batch, torch::kInt64);
    const auto conditioning = net.Condition({50}, in.cond);
    const auto permuted = net.Condition({50}, in.cond.index_select(0, order));
    const torch::Tensor expected = net.Predict(in.sample, conditioning, 0).index_select(0, order);
    const torch::Tensor found = net.Predict(in.sample.index_select(0, order), permuted, 0);
    EXPECT_TRUE(torch::equal(found, expected)) << "batch " << batch;

    const auto alone = net.Condition({50}, in.cond.narrow(0, 1, 1));
    EXPECT_TRUE(torch::equal(net.Predict(in.sample.narrow(0, 1, 1), alone, 0),
                             net.Predict(in.sample, conditioning, 0).narrow(0, 1, 1)))
        << "row 1 of a batch of " << batch;
  }
}

TEST_P(TransformerVariant, ARowDependsNeitherOnItsCompanionsNorOnItsPlace) {
  const torch::NoGradGuard no_grad;
  ExpectIndependentRows(*MakeNet(GetParam()), GetParam().obs_feature_dim);
}

INSTANTIATE_TEST_SUITE_P(All, TransformerVariant, testing::ValuesIn(Variants()));

// the matrix products choose their kernels by size
TEST(DiffusionTransformer, ARowOfALargeNetworkIsIndependentToo) {
  const torch::NoGradGuard no_grad;
  TransformerConfig config = Small();
  config.n_emb = 256;
  config.n_head = 4;
  ExpectIndependentRows(*MakeNet(config));
}

TEST(DiffusionTransformer, DropCachesMakesPredictReadTheWeightsAgain) {
  const torch::NoGradGuard no_grad;
  DiffusionTransformer net = MakeNet(Small());
  const Inputs in = MakeInputs(4);
  net->Predict(in.sample, net->Condition({30}, in.cond), 0);
  for (torch::Tensor& parameter : net->parameters()) parameter.mul_(1.5);
  net->DropCaches();
  const torch::Tensor timesteps = torch::full({4}, 30, torch::kInt64);
  EXPECT_LE(RelativeDifference(net->Predict(in.sample, net->Condition({30}, in.cond), 0),
                               net->forward(in.sample, timesteps, in.cond)),
            kRounding);
}

TEST(DiffusionTransformer, StartsAsUpstreamDoes) {
  torch::manual_seed(0);
  const DiffusionTransformer net(TransformerConfig{.action_dim = 2, .obs_feature_dim = kObs});
  for (const auto& item : net->named_parameters()) {
    const std::string& name = item.key();
    const bool is_norm = name.find("norm") != std::string::npos || name.starts_with("ln_f");
    if (name.ends_with("bias")) {
      EXPECT_EQ(item.value().abs().max().item<float>(), 0.0F) << name;
    } else if (is_norm) {
      EXPECT_EQ((item.value() - 1.0).abs().max().item<float>(), 0.0F) << name;
    } else {
      EXPECT_NEAR(item.value().std().item<double>(), 0.02, 2e-3) << name;
    }
  }
}

}  // namespace
}  // namespace dp_bench::policy
