// The optimizers and gradient clipping against torch.optim, the parameter groups, and the saved
// state.
#include "train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/normalization.h>

#include "dp_bench/error.h"
#include "planner/policy_weights.h"
#include "support/difference.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace dp_bench::train {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kFloatTolerance = 1e-6;  // float32 arithmetic on values around 1
constexpr int kNumUpdates = 8;

/// The golden run of an optimizer: that of adamw is in a file of its own, those of the others share
/// their gradients and rates, and the file has their configs.
struct GoldenRun {
  explicit GoldenRun(const std::string& case_name = "adamw")
      : name(case_name),
        weight(Value("weight.0").requires_grad_()),
        bias(Value("bias.0").requires_grad_()),
        optimizer(MakeConfig(), {{.names = {"weight"}, .parameters = {weight}, .weight_decay = 0.1},
                                 {.names = {"bias"}, .parameters = {bias}, .weight_decay = 0.0}}) {}

  bool is_adamw() const { return name == "adamw"; }
  OptimizerConfig MakeConfig() const {
    if (is_adamw()) return {.beta1 = 0.95, .beta2 = 0.999, .eps = 1e-8};
    return OptimizerConfig::FromConfig(Config::FromJson(Golden("optimizers").metadata.at(name)));
  }
  torch::Tensor Read(const std::string& key) const {
    return ToTensor(Golden(is_adamw() ? "training" : "optimizers").tensors.at(key));
  }
  torch::Tensor Value(const std::string& key) const { return Read(name + "." + key); }
  torch::Tensor Shared(const std::string& key) const { return is_adamw() ? Value(key) : Read(key); }

  void SetGradients(int step) {
    weight.mutable_grad() = Shared("grad.weight")[step].clone();
    bias.mutable_grad() = Shared("grad.bias")[step].clone();
  }
  void Step(int step) {
    SetGradients(step);
    optimizer.Step(Shared("lr")[step].item<double>());
  }

  std::string name;
  torch::Tensor weight;
  torch::Tensor bias;
  Optimizer optimizer;
};

class EveryOptimizer : public testing::TestWithParam<const char*> {};

TEST_P(EveryOptimizer, StepsEqualThoseOfTorchOptim) {
  GoldenRun run(GetParam());
  for (int step = 0; step < kNumUpdates; ++step) {
    run.Step(step);
    const std::string k = std::to_string(step + 1);
    EXPECT_LE(Difference(run.weight, run.Value("weight." + k)), kFloatTolerance) << k;
    EXPECT_LE(Difference(run.bias, run.Value("bias." + k)), kFloatTolerance) << k;
  }
}

TEST_P(EveryOptimizer, ContinuesBitForBitFromItsState) {
  GoldenRun straight(GetParam());
  GoldenRun first(GetParam());
  for (int step = 0; step < 4; ++step) {
    straight.Step(step);
    first.Step(step);
  }
  GoldenRun second(GetParam());
  second.optimizer.LoadStateDict(planner::ToArrays(first.optimizer.StateDict()));
  {
    const torch::NoGradGuard no_grad;
    second.weight.copy_(first.weight);
    second.bias.copy_(first.bias);
  }
  for (int step = 4; step < kNumUpdates; ++step) {
    straight.Step(step);
    second.Step(step);
  }
  EXPECT_TRUE(torch::equal(straight.weight, second.weight));
  EXPECT_TRUE(torch::equal(straight.bias, second.bias));
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer,
                         testing::Values("adamw", "adam", "sgd", "momentum", "nesterov"),
                         [](const auto& test) { return test.param; });

TEST(AdamW, LeavesParametersWithoutGradientAlone) {
  GoldenRun run;
  run.SetGradients(0);
  run.bias.mutable_grad().reset();
  run.optimizer.Step(0.1);
  EXPECT_TRUE(torch::equal(run.bias, run.Value("bias.0")));
  EXPECT_FALSE(torch::equal(run.weight, run.Value("weight.0")));
}

TEST(AdamW, ZeroGradDropsTheGradients) {
  GoldenRun run;
  run.SetGradients(0);
  run.optimizer.ZeroGrad();
  EXPECT_FALSE(run.weight.grad().defined());
  EXPECT_EQ(run.optimizer.ClipGradNorm(1.0).item<double>(), 0.0);
}

TEST(AdamW, ClippingEqualsThatOfTorch) {
  for (const auto& [name, max_norm] : {std::pair{"clip.0", 0.5}, std::pair{"clip.1", 100.0}}) {
    GoldenRun run;
    run.SetGradients(0);
    const torch::Tensor norm = run.optimizer.ClipGradNorm(max_norm);
    const std::string prefix = name;
    EXPECT_LE(Difference(norm, run.Read(prefix + ".norm")), kFloatTolerance);
    EXPECT_LE(Difference(run.weight.grad(), run.Read(prefix + ".weight")), kFloatTolerance);
    EXPECT_LE(Difference(run.bias.grad(), run.Read(prefix + ".bias")), kFloatTolerance);
  }
}

TEST(Optimizer, KeepsOnlyTheTensorsThatItNeeds) {
  const auto names = [](const char* name) {
    std::vector<std::string> keys;
    for (const auto& [key, tensor] : GoldenRun(name).optimizer.StateDict()) keys.push_back(key);
    return keys;
  };
  EXPECT_THAT(names("sgd"), ElementsAre("step"));
  EXPECT_THAT(names("momentum"),
              ElementsAre("bias.momentum_buffer", "step", "weight.momentum_buffer"));
  EXPECT_THAT(names("adam"), ElementsAre("bias.exp_avg", "bias.exp_avg_sq", "step",
                                         "weight.exp_avg", "weight.exp_avg_sq"));
}

TEST(Optimizer, RefusesTheStateOfAnotherKind) {
  GoldenRun momentum("momentum");
  const std::string message = MessageOf(ErrorCode::kCheckpoint, [&] {
    momentum.optimizer.LoadStateDict(planner::ToArrays(GoldenRun("adam").optimizer.StateDict()));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("'exp_avg' of another optimizer than optimizer.name=sgd"),
                             HasSubstr("training.init_checkpoint")));
  EXPECT_THAT(MessageOf(ErrorCode::kCheckpoint,
                        [&] {
                          GoldenRun("adam").optimizer.LoadStateDict(
                              planner::ToArrays(momentum.optimizer.StateDict()));
                        }),
              HasSubstr("'momentum_buffer' of another optimizer than optimizer.name=adam"));
}

TEST(Optimizer, SettingsThatCannotBeMeantAreErrors) {
  const auto error_of = [](const char* text) {
    return MessageOf(ErrorCode::kConfig, [&] {
      const Config config = Config::FromJson(text);
      OptimizerConfig::FromConfig(config);
      config.RejectUnread();
    });
  };
  EXPECT_THAT(error_of(R"({"name": "adamax"})"),
              HasSubstr("name: expected one of adamw, adam, sgd, found 'adamax'"));
  EXPECT_THAT(error_of(R"({"name": "sgd", "nesterov": true, "momentum": 0})"),
              HasSubstr("momentum: expected a momentum above 0 with nesterov, found 0"));
  EXPECT_THAT(error_of(R"({"name": "sgd", "momentum": 2})"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error_of(R"({"momentum": 0.9})"), HasSubstr("momentum"));
}

TEST(AdamW, RefusesAStateThatDoesNotFit) {
  GoldenRun run;
  ArrayMap state = planner::ToArrays(run.optimizer.StateDict());
  state["bias.exp_avg"] = Array(DType::kFloat32, {5});
  state.erase("bias.exp_avg_sq");
  state["extra.exp_avg"] = Array(DType::kFloat32, {4});
  EXPECT_THAT(
      MessageOf(ErrorCode::kCheckpoint, [&] { run.optimizer.LoadStateDict(state); }),
      AllOf(HasSubstr("bias.exp_avg: expected float32 [4], found float32 [5]"),
            HasSubstr("bias.exp_avg_sq: missing"),
            HasSubstr("extra.exp_avg: not part of the policy"), HasSubstr("another config?")));
}

struct NetworkImpl : torch::nn::Module {
  NetworkImpl() {
    register_module("conv", torch::nn::Conv1d(2, 4, 3));
    register_module("norm", torch::nn::GroupNorm(2, 4));
    register_module("token", torch::nn::Embedding(5, 4));
    register_parameter("cond_pos_emb", torch::zeros({1, 3, 4}));
    register_parameter("frozen", torch::zeros({3, 3}), /*requires_grad=*/false);
  }
};

TEST(ParameterGroups, DecayOnlyMatricesAndKernels) {
  const NetworkImpl network;
  const std::vector<ParameterGroup> groups = MakeParameterGroups(network, {.weight_decay = 0.01});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_THAT(groups[0].names, ElementsAre("conv.weight"));
  EXPECT_EQ(groups[0].weight_decay, 0.01);
  EXPECT_THAT(groups[1].names,
              ElementsAre("cond_pos_emb", "conv.bias", "norm.weight", "norm.bias", "token.weight"));
  EXPECT_EQ(groups[1].weight_decay, 0.0);
}

OptimizerConfig ConfigWithRules(const std::string& rules) {
  return OptimizerConfig::FromConfig(
      Config::FromJson(R"({"weight_decay": 0.01, "param_groups": )" + rules + "}"));
}

TEST(ParameterGroups, FirstRuleThatMatchesCounts) {
  const NetworkImpl network;
  const std::vector<ParameterGroup> groups = MakeParameterGroups(network, ConfigWithRules(R"([
          {"pattern": "^conv\\.b", "lr_scale": 0.5},
          {"pattern": "conv|norm", "lr_scale": 0.1, "weight_decay": 0.2}])"));
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_THAT(groups[0].names, ElementsAre("cond_pos_emb", "token.weight"));
  EXPECT_EQ(groups[0].lr_scale, 1.0);
  EXPECT_THAT(groups[1].names, ElementsAre("conv.bias"));
  EXPECT_EQ(groups[1].lr_scale, 0.5);
  EXPECT_THAT(groups[2].names, ElementsAre("conv.weight"));
  EXPECT_EQ(groups[2].lr_scale, 0.1);
  EXPECT_EQ(groups[2].weight_decay, 0.2);
  EXPECT_THAT(groups[3].names, ElementsAre("norm.weight", "norm.bias"));
  EXPECT_EQ(groups[3].weight_decay, 0.0);
}

TEST(ParameterGroups, FrozenParametersLeaveAutogradAndTheGroups) {
  NetworkImpl network;
  const OptimizerConfig config =
      ConfigWithRules(R"([{"pattern": "conv.bias"}, {"pattern": "conv", "frozen": true}])");
  FreezeParameters(network, config);
  EXPECT_FALSE(network.named_parameters()["conv.weight"].requires_grad());
  EXPECT_TRUE(network.named_parameters()["conv.bias"].requires_grad());  // an earlier rule's
  EXPECT_TRUE(network.named_parameters()["norm.weight"].requires_grad());
  for (const ParameterGroup& group : MakeParameterGroups(network, config)) {
    EXPECT_THAT(group.names, testing::Not(testing::Contains("conv.weight")));
  }
}

TEST(ParameterGroups, RulesThatCannotBeMeantAreErrors) {
  const auto error_of = [](const std::string& rules) {
    return MessageOf(ErrorCode::kConfig, [&] {
      NetworkImpl network;
      FreezeParameters(network, ConfigWithRules(rules));
    });
  };
  EXPECT_THAT(error_of(R"([{"pattern": "conv"}, {"pattern": "bakbone"}])"),
              AllOf(HasSubstr("param_groups.1.pattern: 'bakbone' matches none of the policy's 7"),
                    HasSubstr("conv.weight")));
  EXPECT_THAT(error_of(R"([{"pattern": "conv["}])"),
              HasSubstr("param_groups.0.pattern: 'conv[' is not a regular expression"));
  EXPECT_THAT(error_of(R"([{"pattern": "", "frozen": true}])"), HasSubstr("freezes every"));
  EXPECT_THAT(error_of(R"({"pattern": {}})"), HasSubstr("expected a list of objects"));
  EXPECT_THAT(error_of(R"([{"lr_scale": 1}])"), HasSubstr("pattern"));
}

TEST(ParameterGroups, RuleKeysThatHaveNoMeaningAreLeftUnread) {
  const Config config =
      Config::FromJson(R"({"param_groups": [{"pattern": "a", "frozen": true, "lr_scale": 0.1}]})");
  OptimizerConfig::FromConfig(config);
  EXPECT_THAT(MessageOf(ErrorCode::kConfig, [&] { config.RejectUnread(); }),
              HasSubstr("param_groups.0.lr_scale"));
}

TEST(AdamW, GroupScaleMultipliesTheRateOfEachStep) {
  GoldenRun scaled;
  GoldenRun plain;
  Optimizer optimizer(
      {.beta1 = 0.95, .beta2 = 0.999, .eps = 1e-8},
      {{.names = {"weight"}, .parameters = {scaled.weight}, .weight_decay = 0.1, .lr_scale = 0.25},
       {.names = {"bias"}, .parameters = {scaled.bias}, .weight_decay = 0.0}});
  scaled.SetGradients(0);
  optimizer.Step(0.5);
  plain.SetGradients(0);
  plain.optimizer.Step(0.125);
  EXPECT_TRUE(torch::equal(scaled.weight, plain.weight));
  EXPECT_FALSE(torch::equal(scaled.bias, plain.bias));
  // the names do not depend on the groups, so that the rules may change between runs
  plain.optimizer.LoadStateDict(planner::ToArrays(optimizer.StateDict()));
}

TEST(ParameterGroups, NothingToTrainIsAnError) { EXPECT_THROW(Optimizer({}, {}), Error); }

}  // namespace
}  // namespace dp_bench::train
